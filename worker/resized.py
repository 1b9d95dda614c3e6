"""A model for other input shapes than those it was exported for.

The shapes that the file records inside the graph belong to the exported input shapes: they are dropped, and the model
is treated as a dynamic one. What the graph computes from constants of the old shape (a Reshape to fixed numbers)
stays, and is an error only where it does not fit.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from onnx import ValueInfoProto, helper

from ..comm.errors import ModelError
from .mindir.graph import Graph, Input, Model, OtherType, TensorType, TupleType, ValueType
from .onnx_values import tensor_type, value_info
from .pivot import Pivot, is_onnx, load_pivot, pivot_of

if TYPE_CHECKING:
    from .mindir.crypto import Decryption

Shape = tuple[int, ...]


def load_resized(path: str, shapes: Sequence[Shape], decryption: Decryption | None = None,
                 weights_folder: str = "") -> Pivot:
    """The pivot of the model at `path` with the given shapes of its inputs, in order; otherwise as load_pivot."""
    if is_onnx(path):
        return _resized_onnx(load_pivot(path, decryption, weights_folder), shapes)
    from .mindir.reader import read_model

    return pivot_of(_resized_mindir(read_model(path, decryption, weights_folder), shapes))


def _resized_onnx(pivot: Pivot, shapes: Sequence[Shape]) -> Pivot:
    graph = pivot.model.graph
    initializers = {tensor.name for tensor in graph.initializer}
    inputs = [info for info in graph.input if info.name not in initializers]
    for info, shape in zip(inputs, shapes, strict=True):
        _set_shape(info, shape)
    for info in graph.output:
        kind = tensor_type(info)
        if kind and kind.shape is not None:
            info.CopyFrom(value_info(info.name, TensorType(kind.dtype, _unknown(kind.shape))))
    del graph.value_info[:]
    return pivot


def _set_shape(info: ValueInfoProto, shape: Shape) -> None:
    elem_type = info.type.tensor_type.elem_type
    info.CopyFrom(helper.make_tensor_value_info(info.name, elem_type, list(shape)))


def _resized_mindir(model: Model, shapes: Sequence[Shape]) -> Model:
    remaining = iter(shapes)
    inputs = tuple(replace(argument, type=_with_shape(model, argument, argument.type, remaining))
                   for argument in model.entry.inputs)
    functions = {name: _without_shapes(graph) for name, graph in model.functions.items()}
    return replace(model, entry=replace(_without_shapes(model.entry), inputs=inputs), functions=functions)


def _with_shape(model: Model, argument: Input, kind: ValueType, shapes: Iterator[Shape]) -> ValueType:
    """The type of an input with the next of the shapes; a tuple takes one for each of its items."""
    if isinstance(kind, OtherType):
        return kind
    if isinstance(kind, TupleType):
        return TupleType(kind.items and tuple(_with_shape(model, argument, item, shapes) for item in kind.items))
    shape = next(shapes)
    if isinstance(kind, TensorType):
        return TensorType(kind.dtype, shape)
    if shape:
        raise ModelError(f"{model.path}: input '{argument.name}' is a number, it cannot get the shape {list(shape)}.")
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
