"""Values of an ONNX graph: their types, who uses them, which nodes they need."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import onnx.inliner
from onnx import GraphProto, ModelProto, NodeProto, ValueInfoProto, helper

from . import dtypes
from .mindir.graph import TensorType


def inlined(model: ModelProto) -> ModelProto:
    """The model without local functions."""
    if model.functions:
        result: ModelProto = onnx.inliner.inline_local_functions(model)
        return result
    return model


def declared_types(graph: GraphProto) -> dict[str, TensorType]:
    """The types that a graph states for its values, initializers included."""
    infos = [*graph.input, *graph.value_info, *graph.output]
    found = {info.name: tensor_type(info) for info in infos if info.type.tensor_type.elem_type}
    for tensor in graph.initializer:
        found[tensor.name] = TensorType(dtypes.from_onnx(tensor.data_type), tuple(tensor.dims))
    return found


def tensor_type(info: ValueInfoProto) -> TensorType:
    """The type of a value info; a dimension without a number is -1."""
    kind = info.type.tensor_type
    shape = tuple(d.dim_value if d.HasField("dim_value") else -1 for d in kind.shape.dim)
    return TensorType(dtypes.from_onnx(kind.elem_type), shape if kind.HasField("shape") else None)


def value_info(name: str, kind: TensorType) -> ValueInfoProto:
    """A value's name and type as ONNX declares them."""
    shape = None if kind.shape is None else [None if dim < 0 else dim for dim in kind.shape]
    return helper.make_tensor_value_info(name, dtypes.to_onnx(kind.dtype), shape)


def subgraphs(node: NodeProto) -> Iterator[GraphProto]:
    """The branches and bodies of a node."""
    for attribute in node.attribute:
        if attribute.HasField("g"):
            yield attribute.g
        yield from attribute.graphs


def uses(node: NodeProto) -> Iterable[str]:
    """Every outer value that a node takes, those captured by its branches and bodies included."""
    names = {name for name in node.input if name}
    for graph in subgraphs(node):
        own = {info.name for info in graph.input} | {tensor.name for tensor in graph.initializer}
        own.update(name for inner in graph.node for name in inner.output)
        names.update(name for inner in graph.node for name in uses(inner) if name not in own)
        names.update(info.name for info in graph.output if info.name not in own)
    return names


def needed(nodes: Sequence[NodeProto], outputs: Iterable[str]) -> list[NodeProto]:
    """Those of `nodes`, in order, on which `outputs` depend."""
    wanted, kept = set(outputs), []
    for node in reversed(nodes):
        if wanted.intersection(node.output):
            kept.append(node)
            wanted.update(uses(node))
    return kept[::-1]
