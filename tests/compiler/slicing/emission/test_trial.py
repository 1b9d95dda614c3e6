"""Trials: graphs that onnxruntime ends the process for, where it optimises as much as it can."""

import numpy as np
import onnx_ir as ir
from onnx import TensorProto, helper, numpy_helper

from rankmesh.compiler.slicing.emission.trial import run_model

HALF = TensorProto.FLOAT16


def info(name, *shape):
    return helper.make_tensor_value_info(name, HALF, shape)


def test_a_transpose_of_float16_before_a_matmul_runs():
    """onnxruntime 1.32 fuses the two, and then ends with SIGSEGV while it makes the session."""
    nodes = [
        helper.make_node("Transpose", ["x"], ["moved"], perm=[1, 2, 0]),
        helper.make_node("MatMul", ["moved", "w"], ["y"]),
        helper.make_node("Add", ["a", "c"], ["z"]),
    ]
    inputs = [info("x", 64, 2, 8), info("w", 64, 16), info("a", 2, 8, 1)]
    outputs = [info("y", 2, 8, 16), info("z", 2, 8, 1)]
    constant = numpy_helper.from_array(np.float16(1), "c")
    graph = helper.make_graph(nodes, "attention", inputs, outputs, [constant])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    arrays = {"x": np.ones((64, 2, 8)), "w": np.ones((64, 16)), "a": np.ones((2, 8, 1))}
    feeds = {name: array.astype(np.float16) for name, array in arrays.items()}
    y, z = run_model(ir.from_proto(model), feeds)
    assert (y == 64).all() and (z == 2).all()
