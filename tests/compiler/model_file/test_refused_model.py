"""Models that onnxruntime refuses: its reason is the error of what cannot slice or convert them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from onnx_models import model, node

import rankmesh
from rankmesh.comm.errors import InputError, ModelError, OutOfMemory
from rankmesh.compiler.model_file.refused_model import refused_by_onnxruntime

F32 = np.float32


def written(folder: Path, wrong: bool) -> str:
    """A model with a weight, which a Reshape and a Concat are right or wrong for."""
    nodes = [node("MatMul", "x w", "a"), node("Reshape", "a shape", "y")]
    if wrong:
        nodes[1:] = [node("Split", "a", "b c", num_outputs=2, axis=7), node("Relu", "b", "y")]
    constants = {"w": np.ones((64, 64), F32), "shape": np.array([-1])}
    content = model(nodes, {"x": [2, 64]}, {"y": None}, constants=constants)
    (folder / "m.onnx").write_bytes(content.SerializeToString())
    return str(folder / "m.onnx")


def test_a_fault_in_a_model_that_onnxruntime_refuses_is_the_models(tmp_path: Path) -> None:
    path = written(tmp_path, wrong=True)
    with pytest.raises(ModelError, match=r"m.onnx: onnxruntime refuses the model: .*Split"):
        with refused_by_onnxruntime(path):
            raise IndexError("list index out of range")


def test_a_fault_in_a_model_that_onnxruntime_takes_stays(tmp_path: Path) -> None:
    path = written(tmp_path, wrong=False)
    for error in (IndexError("of ours"), InputError("of the user")):
        with pytest.raises(type(error), match=r"of (ours|the user)"):
            with refused_by_onnxruntime(path):
                raise error


def test_a_model_that_is_too_large_is_named(tmp_path: Path) -> None:
    with pytest.raises(OutOfMemory, match=r"m.onnx: the host has no memory left"):
        with refused_by_onnxruntime(written(tmp_path, wrong=False)):
            np.empty(1 << 60, np.uint8)


def test_what_is_no_onnx_file_is_not_asked_about(tmp_path: Path) -> None:
    with pytest.raises(KeyError):
        with refused_by_onnxruntime(str(tmp_path)):
            raise KeyError("shape")


def test_slicing_a_model_that_onnxruntime_refuses(tmp_path: Path) -> None:
    path = written(tmp_path, wrong=True)
    with pytest.raises(ModelError):
        rankmesh.slice_model(path, rankmesh.plan_slices(path, ranks=2), str(tmp_path / "shards"))
