"""ONNX's own tests of its operators on the torch executor."""

from __future__ import annotations

import onnx
import pytest

pytest.importorskip("torch")

from backend_nodes import failures, is_rounding, named, selected, written


@pytest.mark.slow
@pytest.mark.skipif(not onnx.__version__.startswith("1.23."), reason="the table is of onnx 1.23")
def test_nodes_compute_what_onnx_says() -> None:
    """In one test: ONNX takes ten seconds to compute its references, in each process."""
    cases = selected()
    failed = failures(cases)
    assert len(failed) < 0.05 * len(cases)
    unlisted = {name: text for name, text in failed.items() if f"`{name}`" not in written()}
    assert all(map(is_rounding, unlisted)), f"{unlisted}; run tests/support/backend_nodes.py"
    mended = {name for name in named() if name not in failed}
    assert all(map(is_rounding, mended)), f"{mended}; run tests/support/backend_nodes.py"
