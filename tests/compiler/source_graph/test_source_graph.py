"""Source graphs: weights are read where the model's file is, whatever links lead to it."""

import os

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper
from slicing import graph_of

from rankmesh.compiler.model_file.model_format import load_model
from rankmesh.compiler.source_graph.source_graph import source_model

pytestmark = pytest.mark.pure


def test_a_model_with_links_to_it_has_its_weights(tmp_path):
    weight = np.arange(4096, dtype=np.float32).reshape(64, 64)
    node = helper.make_node("MatMul", ["x", "w"], ["y"])
    info = [helper.make_tensor_value_info(name, 1, [1, 64]) for name in "xy"]
    graph = helper.make_graph(
        [node], "one", info[:1], info[1:], [numpy_helper.from_array(weight, "w")]
    )
    (tmp_path / "stored").mkdir()
    onnx.save(helper.make_model(graph, ir_version=10), tmp_path / "stored" / "model.onnx")
    (tmp_path / "soft.onnx").symlink_to("stored/model.onnx")
    os.link(tmp_path / "stored" / "model.onnx", tmp_path / "hard.onnx")
    for name in ("soft.onnx", "hard.onnx"):
        model = source_model(load_model(str(tmp_path / name)))
        np.testing.assert_array_equal(model.graph.initializers["w"].const_value.numpy(), weight)


def test_values_of_two_bodies_have_names_of_their_own():
    """And those behind a body, whose names ONNX lets it use: what is known of one is not of all."""
    model = onnx.parser.parse_model(
        """<ir_version: 10, opset_import: ["": 18]> main (float[4, 6] x, bool c) => (float[4] z) {
            y = If (c) <then_branch = g1 () => (a) { h = Neg (x) a = ReduceSum <keepdims = 0> (h) },
                        else_branch = g2 () => (a) { h = Exp (x) a = ReduceMax <keepdims = 0> (h) }>
            h = ReduceSum (x)
            z = Mul (h, y)
        }"""
    )
    graphs = [graph_of(model).model.graph]
    graphs += graphs[0].subgraphs()
    names = [value.name for graph in graphs for node in graph for value in node.outputs]
    nodes = [node.name for graph in graphs for node in graph]
    assert len(names) == len(set(names)) == len(nodes) == len(set(nodes)) == 7
