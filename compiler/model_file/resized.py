"""Resized models: a model for other input shapes than those it was exported for.

The shapes that the file records inside the graph belong to the exported input shapes. They are
dropped, and the model is treated as a dynamic one. Results computed from constants of the old shape
(a Reshape to fixed numbers) stay, and are an error only where they do not fit.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from onnx import GraphProto, helper

from ...comm.arrays import Shape
from ...comm.errors import ModelError
from ..element_types.value_types import OtherType, TensorType, TupleType, ValueType
from ..mindir.graph import Graph, Input, MindirModel
from ..onnx_graph.onnx_values import tensor_type, value_info


def resize_onnx(graph: GraphProto, shapes: Sequence[Shape]) -> tuple[Shape | None, ...]:
    """Give the inputs of an ONNX graph, in order, these shapes, -1 for any size; return those that
    they had. Inputs with a default come last, and may be left out.
    """
    weights = {tensor.name for tensor in graph.initializer}
    ordered = sorted(graph.input, key=lambda info: info.name in weights)
    inputs = ordered[: len(shapes)]
    exported = [tensor_type(info) for info in inputs]
    for info, shape in zip(inputs, shapes, strict=True):
        elem_type = info.type.tensor_type.elem_type
        sizes = [None if size < 0 else size for size in shape]
        info.CopyFrom(helper.make_tensor_value_info(info.name, elem_type, sizes))
    for info in graph.output:
        kind = tensor_type(info)
        if kind and kind.shape is not None:
            info.CopyFrom(value_info(info.name, TensorType(kind.dtype, _unknown(kind.shape))))
    del graph.value_info[:]
    return tuple(kind.shape if kind else None for kind in exported)


def resize_mindir(model: MindirModel, shapes: Sequence[Shape]) -> MindirModel:
    """A MindIR graph whose inputs have these shapes, in order; a tuple takes one for each item."""
    remaining = iter(shapes)
    inputs = tuple(
        replace(argument, type=_with_shape(model, argument, argument.type, remaining))
        for argument in model.entry.inputs
    )
    functions = {name: _without_shapes(graph) for name, graph in model.functions.items()}
    return replace(
        model, entry=replace(_without_shapes(model.entry), inputs=inputs), functions=functions
    )


def mindir_shapes(model: MindirModel) -> tuple[Shape | None, ...]:
    """The shapes of a MindIR graph's inputs, in order; a tuple has one for each item."""
    return tuple(shape for argument in model.entry.inputs for shape in _shapes(argument.type))


def _shapes(kind: ValueType) -> Iterator[Shape | None]:
    if isinstance(kind, TupleType):
        for item in kind.items or ():
            yield from _shapes(item)
    elif not isinstance(kind, OtherType):
        yield kind.shape if isinstance(kind, TensorType) else ()


def _with_shape(
    model: MindirModel, argument: Input, kind: ValueType, shapes: Iterator[Shape]
) -> ValueType:
    """The type of an input with the next of the shapes; a tuple takes one for each item."""
    if isinstance(kind, OtherType):
        return kind
    if isinstance(kind, TupleType):
        return TupleType(
            kind.items and tuple(_with_shape(model, argument, item, shapes) for item in kind.items)
        )
    shape = next(shapes)
    if isinstance(kind, TensorType):
        return TensorType(kind.dtype, shape)
    if shape:
        raise ModelError(
            f"{model.path}: input '{argument.name}' is a number, it cannot get the shape "
            f"{list(shape)}."
        )
    return kind


def _without_shapes(graph: Graph) -> Graph:
    nodes = tuple(replace(node, type=_open(node.type)) for node in graph.nodes)
    inputs = tuple(replace(argument, type=_open(argument.type)) for argument in graph.inputs)
    return replace(graph, nodes=nodes, inputs=inputs, output_type=_open(graph.output_type))


def _open(kind: ValueType) -> ValueType:
    """The type with every dimension unknown."""
    if isinstance(kind, TupleType) and kind.items is not None:
        return TupleType(tuple(_open(item) for item in kind.items))
    if isinstance(kind, TensorType) and kind.shape is not None:
        return TensorType(kind.dtype, _unknown(kind.shape))
    return kind


def _unknown(shape: Shape) -> Shape:
    return (-1,) * len(shape)
