"""Transposes of merged axes: the same numbers without merging, and what is left as it is."""

from __future__ import annotations

from collections import Counter

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper
from slicing import graph_of

from rankmesh.compiler.slicing.emission.trial import run_model
from rankmesh.compiler.slicing.placement.placements import even_split
from rankmesh.compiler.slicing.planning.propagate import propagate


def merged_transpose(
    perm: tuple[int, ...] = (0, 2, 1), middle: bool = False, heads: int = 4
) -> onnx.ModelProto:
    """Keys (batch, 4, sequence, 8) transposed on three axes, with `heads` heads at the end."""
    nodes = [
        helper.make_node("Reshape", ["k", "three"], ["merged"], name="merge"),
        helper.make_node("Transpose", ["merged"], ["turned"], name="turn", perm=perm),
        helper.make_node("Shape", ["k"], ["length"], name="sizes", start=2, end=3),
        helper.make_node("Concat", ["four", "length"], ["target"], name="join", axis=0),
        helper.make_node("Reshape", ["turned", "target"], ["parted"], name="part"),
        helper.make_node("Relu", ["parted"], ["y"], name="relu"),
    ]
    if perm == (1, 0, 2):
        nodes[3].input[:] = ["length", "four"]
    outputs = [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)]
    if middle:
        outputs.append(helper.make_tensor_value_info("turned", TensorProto.FLOAT, None))
    shape = ["batch", 4, 3, 8]
    graph = helper.make_graph(
        nodes,
        "keys",
        [helper.make_tensor_value_info("k", TensorProto.FLOAT, shape)],
        outputs,
        [
            numpy_helper.from_array(np.array([-1, 3, 8]), "three"),
            numpy_helper.from_array(np.array([-1, heads, 8 * 4 // heads]), "four"),
        ],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=10)


def operators(model: onnx.ModelProto) -> Counter[str]:
    return Counter(node.op_type for node in graph_of(model).nodes)


@pytest.mark.parametrize("batch", [1, 2])
def test_heads_behind_an_open_batch_can_be_split(batch: int) -> None:
    model = merged_transpose()
    graph = graph_of(model)
    assert Counter(node.op_type for node in graph.nodes) == {"Transpose": 1, "Relu": 1}
    k = np.random.default_rng(3).standard_normal((batch, 4, 3, 8)).astype(np.float32)
    (got,) = run_model(graph.model.clone(), {"k": k})
    (want,) = onnxruntime.InferenceSession(model.SerializeToString()).run(None, {"k": k})
    np.testing.assert_array_equal(got, want)
    heads = even_split(1, 4, 2)
    strategies = propagate(graph, 2).strategies["part"]
    assert any(one.inputs == one.outputs == (heads,) for one in strategies)


@pytest.mark.parametrize(
    "model",
    [
        merged_transpose(middle=True),
        merged_transpose(heads=2),
        merged_transpose(perm=(0, 1, 2)),
    ],
    ids=["the merged value is an output", "other heads", "another order"],
)
def test_other_reshapes_stay(model: onnx.ModelProto) -> None:
    assert operators(model)["Reshape"] == 2
