"""A segment that onnxruntime cannot run: `rankmesh run` shows its error once, and in plain text."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from launched import launch, script
from onnx import TensorProto, helper, save
from processes import rankmesh
from shards import OPSETS, all_reduce


def picking(folder: Path) -> Path:
    """y = the ranks' x, summed, at the position i."""
    info = helper.make_tensor_value_info
    for rank in (0, 1):
        graph = helper.make_graph(
            [all_reduce("x", "s"), helper.make_node("Gather", ["s", "i"], ["y"], name="pick")],
            "picking",
            [info("x", TensorProto.FLOAT, [4]), info("i", TensorProto.INT64, [1])],
            [info("y", TensorProto.FLOAT, [1])],
        )
        save(
            helper.make_model(graph, opset_imports=OPSETS, ir_version=10),
            str(folder / f"pick{rank}.onnx"),
        )
    return folder / "pick.onnx"


def test_the_error_is_shown_once_without_escape_codes(tmp_path: Path) -> None:
    inputs = tmp_path / "far.npz"
    np.savez(inputs, x=np.ones(4, np.float32), i=np.array([9]))
    done = rankmesh("run", picking(tmp_path), "--inputs", inputs, "--device", "cpu")
    assert done.returncode == 4 and "\x1b" not in done.stderr, done.stderr
    assert done.stderr.count("idx=9 must be within") == 1, done.stderr
    assert "onnxruntime failed in the segment that ends in y" in done.stderr.splitlines()[-1]


def test_a_lone_ranks_last_words_are_not_repeated(tmp_path: Path) -> None:
    status, _, errors = launch(
        "--ranks", 1, script(tmp_path, "raise SystemExit('these are my last words')")
    )
    assert (
        status == 1
        and errors.count("these are my last words") == 1
        and "exited with status 1" in errors
    )
