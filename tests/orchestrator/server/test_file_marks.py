"""Marks of a model's files: another content shows, whatever size and time the files have."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from rankmesh.orchestrator.config.settings import ModelSettings
from rankmesh.orchestrator.server.model_files import file_marks

pytestmark = pytest.mark.pure
_LONG_AGO_NS = 10**18


def test_a_file_that_is_written_over_with_size_and_time_as_before_has_other_marks(
    tmp_path: Path,
) -> None:
    settings, found = ModelSettings(str(tmp_path / "m.onnx")), set()
    for content in (b"old weights", b"new weights"):
        (tmp_path / "m.onnx").write_bytes(content)
        os.utime(tmp_path / "m.onnx", ns=(_LONG_AGO_NS, _LONG_AGO_NS))
        found.add(file_marks(settings))
        assert file_marks(settings) in found
    assert len(found) == 2
