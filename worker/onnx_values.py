"""Values of an ONNX graph: their types, who uses them, which nodes they need."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from math import prod

import onnx.inliner
from onnx import GraphProto, ModelProto, NodeProto, TensorProto, ValueInfoProto, helper

from . import dtypes
from .mindir.graph import TensorType


def inlined(model: ModelProto) -> ModelProto:
    """The model without local functions."""
    if model.functions:
        result: ModelProto = onnx.inliner.inline_local_functions(model)
        return result
    return model


def declared_types(graph: GraphProto) -> dict[str, TensorType]:
    """The types that a graph states for its values, initializers included; those that we cannot carry are left out."""
    infos = [*graph.input, *graph.value_info, *graph.output]
    stated = {info.name: tensor_type(info) for info in infos}
    stated.update({tensor.name: _known(tensor.data_type, tuple(tensor.dims)) for tensor in graph.initializer})
    return {name: kind for name, kind in stated.items() if kind}


def tensor_type(info: ValueInfoProto) -> TensorType | None:
    """The type of a value info, if it states one that we can carry; a dimension without a number is -1."""
    kind = info.type.tensor_type
    shape = tuple(d.dim_value if d.HasField("dim_value") else -1 for d in kind.shape.dim)
    return _known(kind.elem_type, shape if kind.HasField("shape") else None)


def _known(elem_type: int, shape: tuple[int, ...] | None) -> TensorType | None:
    try:
        return TensorType(dtypes.from_onnx(elem_type), shape)
    except ValueError:  # unstated, or texts and packed numbers, which may live inside a segment
        return None


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


def tensors(graph: GraphProto) -> Iterator[TensorProto]:
    """Every dense tensor that a graph, its branches and its bodies hold."""
    yield from graph.initializer
    for node in graph.node:
        yield from node_tensors(node)


def node_tensors(node: NodeProto) -> Iterator[TensorProto]:
    """The tensors among the attributes of a node, those of its branches and bodies included."""
    for attribute in node.attribute:
        if attribute.HasField("t"):
            yield attribute.t
        yield from attribute.tensors
    for graph in subgraphs(node):
        yield from tensors(graph)


def tensor_bytes(tensor: TensorProto) -> int:
    """How many bytes a tensor's elements take; of packed types and texts, what the file itself holds."""
    try:
        return prod(tensor.dims) * dtypes.from_onnx(tensor.data_type).itemsize
    except ValueError:
        return len(tensor.raw_data)


def captured(node: NodeProto) -> list[str]:
    """The outer values that the branches and bodies of a node take."""
    names: list[str] = []
    for graph in subgraphs(node):
        own = {info.name for info in graph.input} | {tensor.name for tensor in graph.initializer}
        own.update(name for inner in graph.node for name in inner.output)
        taken = [*(name for inner in graph.node for name in uses(inner)), *(info.name for info in graph.output)]
        names += [name for name in taken if name not in own]
    return names


def uses(node: NodeProto) -> list[str]:
    """Every outer value that a node takes, once, those captured by its branches and bodies included."""
    return list(dict.fromkeys([*filter(None, node.input), *captured(node)]))


def needed(nodes: Sequence[NodeProto], outputs: Iterable[str], kept_domain: str) -> list[NodeProto]:
    """Those of `nodes`, in order, on which `outputs` or the nodes of `kept_domain` depend, and these nodes."""
    wanted, kept = set(outputs), []
    for node in reversed(nodes):
        if node.domain == kept_domain or wanted.intersection(node.output):
            kept.append(node)
            wanted.update(uses(node))
    return kept[::-1]
