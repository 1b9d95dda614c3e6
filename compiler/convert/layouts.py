"""Layouts of images: puts the channels of inputs and outputs of four dimensions last."""

from __future__ import annotations

import onnx_ir as ir

_LAST, _FIRST = (0, 2, 3, 1), (0, 3, 1, 2)
_DIMENSIONS = 4


def put_channels_last(model: ir.Model, inputs: bool, outputs: bool) -> None:
    """Turn the inputs, the outputs or both of a model whose images have their channels first."""
    if outputs:
        for at, value in enumerate(model.graph.outputs):
            if _is_image(value):
                model.graph.outputs[at] = _turned_output(model.graph, value)
    if inputs:
        for at, value in enumerate(model.graph.inputs):
            if _is_image(value) and str(value.name) not in model.graph.initializers:
                model.graph.inputs[at] = _turned_input(model.graph, value)


def _is_image(value: ir.Value) -> bool:
    return value.shape is not None and len(value.shape) == _DIMENSIONS


def _turned_input(graph: ir.Graph, value: ir.Value) -> ir.Value:
    """The input in the place of another, whose uses take it turned back."""
    given = ir.Value(name=value.name, type=value.type, shape=_turned(value))
    node = ir.node("Transpose", [given], {"perm": _FIRST})
    (first,) = node.outputs
    first.name, first.type, first.shape = f"{value.name}_nchw", value.type, value.shape
    value.replace_all_uses_with(first, replace_graph_outputs=True)
    if len(graph):
        graph.insert_before(graph[0], node)
    else:
        graph.append(node)
    return given


def _turned_output(graph: ir.Graph, value: ir.Value) -> ir.Value:
    node = ir.node("Transpose", [value], {"perm": _LAST})
    (last,) = node.outputs
    last.name, last.type, last.shape = f"{value.name}_nhwc", value.type, _turned(value)
    graph.append(node)
    return last


def _turned(value: ir.Value) -> ir.Shape:
    assert value.shape is not None
    return ir.Shape([value.shape[axis] for axis in _LAST])
