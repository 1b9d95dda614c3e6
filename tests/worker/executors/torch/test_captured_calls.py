"""What a CUDA graph cannot capture: copies from the host and waits for numbers, without a GPU."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import onnx
import pytest

pytest.importorskip("torch")

import torch

SCRIPT = Path(__file__).parents[3] / "support" / "captured_calls.py"
BY_NUMBERS = {
    *("Compress", "If", "Loop", "MelWeightMatrix", "NonMaxSuppression", "NonZero", "RoiAlign"),
    *("ScatterND", "Unique"),
}
"""Operators that ask the device for numbers: what they do depends on these."""
OF_SIZES = {"Pad", "Range", "Scan"}
"""Operators that do so where sizes are no constants, as in some of ONNX's functions."""


def uncaptured(*arguments: str) -> tuple[int, dict[str, str]]:
    """How many cases ran, and what cannot be captured in some; in a process with a device more."""
    if not hasattr(torch._C, "_acc"):
        pytest.skip("this torch has no devices of Python")
    done = subprocess.run(
        [sys.executable, "-P", str(SCRIPT), *arguments],
        capture_output=True,
        text=True,
        timeout=400,
        check=True,
        env={"PYTHONPATH": ":".join(one for one in sys.path if one)},
    )
    made = json.loads(done.stdout.splitlines()[-1])
    return made["ran"], made["found"]


def test_recorded_primitives_copy_nothing_and_wait_for_no_number() -> None:
    ran, found = uncaptured("primitives", "40")
    assert ran > 60
    left = {name: text for name, text in found.items() if _operator(text) not in BY_NUMBERS}
    assert not left


@pytest.mark.slow
@pytest.mark.skipif(not onnx.__version__.startswith("1.23."), reason="the cases are of onnx 1.23")
def test_operators_copy_nothing_and_wait_for_no_number() -> None:
    ran, found = uncaptured("nodes", "5")
    assert ran > 300
    left = {name: text for name, text in found.items() if _operator(text) not in BY_NUMBERS}
    assert {_operator(text) for text in left.values()} <= OF_SIZES, left
    assert all(name.endswith("_expanded") for name in left), left


def _operator(text: str) -> str:
    return text.partition(":")[0]
