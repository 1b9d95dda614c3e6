"""Proofs of bfloat16 models, which run in float32."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import onnx
import onnx_ir as ir
import pytest
from onnx import TensorProto, helper

import rankmesh
from rankmesh.compiler.slicing.emission import verify
from rankmesh.compiler.slicing.emission.widened import wide_tensor

BF16 = TensorProto.BFLOAT16


def tensor(name: str, array: np.ndarray) -> onnx.TensorProto:
    data = array.astype(ml_dtypes.bfloat16).tobytes()
    return helper.make_tensor(name, BF16, array.shape, data, raw=True)


@pytest.fixture
def path(tmp_path) -> str:
    """A network with a Cast to bfloat16, a scalar of that type, and two matrices."""
    nodes = [
        helper.make_node("Cast", ["x"], ["narrow"], "narrow", to=BF16),
        helper.make_node("MatMul", ["narrow", "up"], ["wide"], "up"),
        helper.make_node("Mul", ["wide", "half"], ["scaled"], "scale"),
        helper.make_node("MatMul", ["scaled", "down"], ["y"], "down"),
    ]
    draw = np.random.default_rng(0).standard_normal
    graph = helper.make_graph(
        nodes,
        "narrow",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 64])],
        [helper.make_tensor_value_info("y", BF16, ["batch", 64])],
        [
            tensor("up", draw((64, 128))),
            tensor("down", draw((128, 64))),
            tensor("half", np.array(0.5)),
        ],
    )
    opsets = [helper.make_opsetid("", 20)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=10), tmp_path / "m.onnx")
    return str(tmp_path / "m.onnx")


def test_a_bfloat16_model_is_proved_in_float32_and_written_as_it_is(path, tmp_path) -> None:
    plan = rankmesh.plan_slices(path, 2)
    report = rankmesh.slice_model(path, plan, str(tmp_path / "s"))
    assert report.error is not None and report.error <= 1e-5
    assert "tolerance 1e-05" in report.verification
    shard = ir.from_proto(onnx.load(report.files[1]))
    up = shard.graph.initializers["up"].const_value
    assert up.dtype == BF16 and list(up.shape) == [64, 64]


def test_other_weights_in_a_shard_are_found(path, tmp_path, monkeypatch) -> None:
    def doubled(stored):
        return {key: ir.tensor(2 * wide_tensor(one).numpy()) for key, one in stored.items()}

    monkeypatch.setattr(verify, "widened_weights", doubled)
    plan = rankmesh.plan_slices(path, 2)
    with pytest.raises(rankmesh.ModelError, match="The sliced model differs"):
        rankmesh.slice_model(path, plan, str(tmp_path / "s"))
