"""The usual sizes of open dimensions, where a model has tables for fewer positions."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper, shape_inference
from slicing import graph_of

pytestmark = pytest.mark.pure


def test_usual_sizes_are_halved_until_they_fit_the_tables_of_the_model() -> None:
    """A table of 64 positions is cut to the sequence and added to it: 128 would not fit."""
    ints = {"zero": [0], "one": [1]}
    nodes = [
        helper.make_node("Shape", ["x"], ["shape"], name="shape"),
        helper.make_node("Slice", ["shape", "zero", "one", "zero"], ["length"], name="length"),
        helper.make_node("Slice", ["table", "zero", "length", "zero"], ["rows"], name="rows"),
        helper.make_node("Add", ["x", "rows"], ["y"], name="add"),
    ]
    weights = [numpy_helper.from_array(np.array(v, np.int64), n) for n, v in ints.items()]
    weights.append(numpy_helper.from_array(np.zeros((64, 8), np.float32), "table"))
    graph = helper.make_graph(
        nodes,
        "table",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["sequence", 8])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["sequence", 8])],
        weights,
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=10)
    found = graph_of(shape_inference.infer_shapes(model))
    assert found.dims["y"][0][0] == 64 and len(set(found.dims["y"][0])) == found.choices


@pytest.mark.parametrize("operator", ["GreaterOrEqual", "LessOrEqual"])
def test_comparisons_of_opset_13_have_shapes(operator: str) -> None:
    node = helper.make_node(operator, ["a", "b"], ["y"], name="node")
    infos = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
        for name, shape in (("a", (2, 1)), ("b", (3,)))
    ]
    out = helper.make_tensor_value_info("y", TensorProto.BOOL, None)
    graph = helper.make_graph([node], "compare", infos, [out])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    assert graph_of(model).dims["y"] == ((2,), (3,))


def test_a_name_that_is_made_of_two_others_is_their_sum() -> None:
    shapes = {"x": ["sequence"], "cache": ["past"], "mask": ["past_plus_sequence"]}
    infos = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
        for name, shape in shapes.items()
    ]
    nodes = [
        helper.make_node("Concat", ["cache", "x"], ["all"], name="concat", axis=0),
        helper.make_node("Add", ["all", "mask"], ["y"], name="add"),
    ]
    out = helper.make_tensor_value_info("y", TensorProto.FLOAT, ["past_plus_sequence"])
    model = helper.make_model(helper.make_graph(nodes, "sum", infos, [out]), ir_version=10)
    found = graph_of(model)
    assert set(found.sizes) == {"sequence", "past"}
    for sizes, length in zip(found.size_choices, found.dims["mask"][0], strict=True):
        assert length == sizes["past"] + sizes["sequence"]
