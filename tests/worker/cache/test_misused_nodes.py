"""Nodes that are not as their operators want them: onnxruntime finds them, and ours names them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from onnx import NodeProto, helper, save
from onnx_models import model, node

import rankmesh
from rankmesh.compiler.model_file.model_format import load_model


@pytest.mark.parametrize(
    "made",
    [
        node("Relu", "x x", "y"),
        helper.make_node("Add", ["x", ""], ["y"], "Add y"),
        node("Relu", "x", "y", alpha=0.5),
        node("Cast", "x", "y"),
    ],
    ids=lambda one: f"{one.op_type} {len(one.input)} {len(one.attribute)}",
)
def test_running_and_slicing_say_the_same(tmp_path: Path, made: NodeProto) -> None:
    path = str(tmp_path / "m.onnx")
    save(model([made], {"x": [4]}, {"y": None}), path)
    with pytest.raises(rankmesh.ModelError) as sliced:
        load_model(path)
    built = rankmesh.Model()
    with pytest.raises(rankmesh.ModelError) as run:
        built.build_from_file(path, rankmesh.ModelType.MINDIR)
    assert str(run.value).endswith(f"Error is {sliced.value}")


_BUILT = """
import sys, onnx, rankmesh
onnx.defs.get_schema = onnx.checker.check_node = None
rankmesh.Model().build_from_file(sys.argv[1], rankmesh.ModelType.MINDIR)
"""


def test_a_sound_model_needs_no_table_of_operators(tmp_path: Path) -> None:
    """onnx makes one of 5 MB at the first question."""
    path = str(tmp_path / "m.onnx")
    save(
        model([node("MatMul", "x x", "h"), node("Relu", "h", "y")], {"x": [4, 4]}, {"y": None}),
        path,
    )
    command = [sys.executable, "-P", "-c", _BUILT, path]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr


def test_a_domain_that_a_file_does_not_import(tmp_path: Path) -> None:
    """float16 is widened for a CPU, by types that onnx infers."""
    path = str(tmp_path / "m.onnx")
    made = helper.make_node("Identity", ["x"], ["y"], "Identity y", domain="nowhere")
    half = (np.float16, [4])
    save(model([made], {"x": half}, {"y": half}), path)
    built = rankmesh.Model()
    with pytest.raises(rankmesh.ModelError, match=r"m\.onnx: .*domain nowhere"):
        built.build_from_file(path, rankmesh.ModelType.MINDIR)
