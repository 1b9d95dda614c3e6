"""Graphs for planning: chains of few nodes, and a layer of attention with an MLP."""

from __future__ import annotations

import numpy as np
import onnx
from onnx import helper, numpy_helper, parser
from slicing import graph_of

from rankmesh.compiler.source_graph.source_graph import SourceGraph

DRAW = np.random.default_rng(5)


def chain(*nodes: tuple[str, list[str], str], **weights: tuple[int, ...]) -> SourceGraph:
    """A graph of nodes (operator, inputs, output) with random weights; x is (2, 8, 64), y out."""
    made = [
        helper.make_node(operator, inputs, [output], name=f"n{index}")
        for index, (operator, inputs, output) in enumerate(nodes)
    ]
    arrays = {
        name: DRAW.standard_normal(shape).astype(np.float32) for name, shape in weights.items()
    }
    graph = helper.make_graph(
        made,
        "chain",
        [helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, (2, 8, 64))],
        [helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, None)],
        [numpy_helper.from_array(array, name) for name, array in arrays.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=10)
    return graph_of(onnx.shape_inference.infer_shapes(model))


MLP = (("MatMul", ["x", "up"], "h"), ("Relu", ["h"], "a"), ("MatMul", ["a", "down"], "y"))
SHAPES = {"up": (64, 256), "down": (256, 64)}


def layer(heads: int, size: int) -> SourceGraph:
    """Attention and MLP, with open batch."""
    width = heads * size
    text = f"""<ir_version: 9, opset_import: ["" : 18]> layer (
        float[batch, 256, {width}] x, float[{width}, {width}] q, float[{width}, {width}] k,
        float[{width}, {width}] v, float[{width}, {width}] o, float[{width}, {4 * width}] up,
        float[{4 * width}, {width}] down) => (float[batch, 256, {width}] y)
        <int64[4] parts = {{0, 256, {heads}, {size}}}, int64[3] whole = {{0, 256, {width}}}> {{
            xq = MatMul(x, q)
            xk = MatMul(x, k)
            xv = MatMul(x, v)
            pq = Reshape(xq, parts)
            pk = Reshape(xk, parts)
            pv = Reshape(xv, parts)
            tq = Transpose<perm = [0, 2, 1, 3]>(pq)
            tk = Transpose<perm = [0, 2, 3, 1]>(pk)
            tv = Transpose<perm = [0, 2, 1, 3]>(pv)
            scores = MatMul(tq, tk)
            soft = Softmax(scores)
            mixed = MatMul(soft, tv)
            back = Transpose<perm = [0, 2, 1, 3]>(mixed)
            flat = Reshape(back, whole)
            out = MatMul(flat, o)
            a = Add(x, out)
            h = MatMul(a, up)
            r = Relu(h)
            d = MatMul(r, down)
            y = Add(a, d)
        }}"""
    model = parser.parse_model(text)
    for value in list(model.graph.input[1:]):
        shape = [one.dim_value for one in value.type.tensor_type.shape.dim]
        array = DRAW.standard_normal(shape).astype(np.float32)
        model.graph.initializer.append(numpy_helper.from_array(array, value.name))
        model.graph.input.remove(value)
    return graph_of(model)
