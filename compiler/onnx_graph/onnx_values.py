"""Values of an ONNX graph: their types, their uses, and the nodes that they need."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from copy import deepcopy
from math import prod

from onnx import GraphProto, NodeProto, TensorProto, ValueInfoProto, helper

from ..element_types import dtypes
from ..element_types.value_types import TensorType
from ..mindir.graph import MOST_DIMENSIONS

_BITS = {17: 8, 18: 8, 19: 8, 20: 8, 24: 8, 21: 4, 22: 4, 23: 4, 25: 2, 26: 2}
"""The bits of an element of the types that numpy lacks, by ONNX's number: five kinds of float8,
then packed types.
"""


def declared_types(graph: GraphProto) -> dict[str, TensorType]:
    """The types that a graph states for its values, initializers included.

    Types that Rankmesh does not support are left out.
    """
    infos = [*graph.input, *graph.value_info, *graph.output]
    stated = {info.name: tensor_type(info) for info in infos}
    stated.update(
        {tensor.name: _known(tensor.data_type, tuple(tensor.dims)) for tensor in graph.initializer}
    )
    return {name: kind for name, kind in stated.items() if kind}


def tensor_type(info: ValueInfoProto) -> TensorType | None:
    """The type of a value info; -1 stands for an open dimension.

    None where it states none, or one that Rankmesh does not support.
    """
    kind = info.type.tensor_type
    shape = tuple(d.dim_value if d.HasField("dim_value") else -1 for d in kind.shape.dim)
    return _known(kind.elem_type, shape if kind.HasField("shape") else None)


def _known(elem_type: int, shape: tuple[int, ...] | None) -> TensorType | None:
    try:
        return TensorType(dtypes.from_onnx(elem_type), shape)
    except ValueError:  # unstated, or texts and packed numbers, which may live inside a segment
        return None


def value_info(name: str, kind: TensorType) -> ValueInfoProto:
    """The ONNX declaration of a value's name and type."""
    shape = None if kind.shape is None else [None if dim < 0 else dim for dim in kind.shape]
    return helper.make_tensor_value_info(name, dtypes.to_onnx(kind.dtype), shape)


def subgraphs(node: NodeProto) -> Iterator[GraphProto]:
    """The branches and bodies of a node."""
    for attribute in node.attribute:
        if attribute.HasField("g"):
            yield attribute.g
        yield from attribute.graphs


def all_nodes(nodes: Iterable[NodeProto]) -> Iterator[NodeProto]:
    """These nodes, and those in their branches and bodies."""
    for node in nodes:
        yield node
        for graph in subgraphs(node):
            yield from all_nodes(graph.node)


def tensors(graph: GraphProto) -> Iterator[TensorProto]:
    """Every dense tensor of a graph, its branches and its bodies."""
    yield from graph.initializer
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.HasField("t"):
                yield attribute.t
            yield from attribute.tensors
        for inner in subgraphs(node):
            yield from tensors(inner)


def tensor_bytes(tensor: TensorProto) -> int:
    """The bytes of a tensor's elements; for texts and unknown types, the bytes that the file
    has.
    """
    try:
        return stored_bytes(tensor)
    except ValueError:
        return len(tensor.raw_data)


def stored_bytes(tensor: TensorProto) -> int:
    """The bytes of a tensor's elements in a file; ValueError where type or shape do not tell."""
    bits = _BITS.get(tensor.data_type) or dtypes.from_onnx(tensor.data_type).itemsize * 8
    return -(-elements(tensor.dims) * bits // 8)


def elements(dims: Sequence[int]) -> int:
    """The number of a tensor's elements; ValueError where a dimension is negative or there are too
    many.
    """
    if len(dims) > MOST_DIMENSIONS:
        raise ValueError(f"{len(dims)} dimensions, expected at most {MOST_DIMENSIONS}")
    if min(dims, default=0) < 0:
        raise ValueError(f"the shape {list(dims)} is impossible")
    return prod(dims)


def captured(node: NodeProto) -> list[str]:
    """The outer values that the branches and bodies of a node take."""
    names: list[str] = []
    for graph in subgraphs(node):
        own = {info.name for info in graph.input} | {tensor.name for tensor in graph.initializer}
        own.update(name for inner in graph.node for name in inner.output)
        taken = [
            *(name for inner in graph.node for name in uses(inner)),
            *(info.name for info in graph.output),
        ]
        names += [name for name in taken if name not in own]
    return names


def uses(node: NodeProto) -> list[str]:
    """Every outer value that a node takes, once, with those that its branches and bodies
    capture.
    """
    return list(dict.fromkeys([*filter(None, node.input), *captured(node)]))


def belongs(node: NodeProto, domain: str) -> bool:
    """Whether a node, or one in its branches and bodies, is of a domain."""
    return any(inner.domain == domain for inner in all_nodes([node]))


def needed(nodes: Sequence[NodeProto], outputs: Iterable[str], kept_domain: str) -> list[NodeProto]:
    """The nodes, in order, on which `outputs` or the nodes of `kept_domain` depend, with the
    latter.
    """
    wanted, kept = set(outputs), []
    for node in reversed(nodes):
        if wanted.intersection(node.output) or belongs(node, kept_domain):
            kept.append(node)
            wanted.update(uses(node))
    return kept[::-1]


def with_own_names(graph: GraphProto, taken: dict[str, int]) -> GraphProto:
    """A branch or body whose values have names that are not in `taken`; adds its names to `taken`.

    ONNX lets two branches use one name for two values. `taken` counts how often each name was
    replaced.
    """
    own = [info.name for info in graph.input] + [tensor.name for tensor in graph.initializer]
    own += [name for node in graph.node for name in node.output if name]
    renamed = {}
    for name in own:
        fresh = name
        while fresh in taken:
            taken[name] += 1
            fresh = f"{name}.{taken[name]}"
        taken[fresh] = 0
        renamed[name] = fresh
    if any(old != new for old, new in renamed.items()):
        graph = deepcopy(graph)
        rename_graph(graph, renamed)
    return graph


def graph_names(graph: GraphProto) -> Iterator[str]:
    """The names that a graph, its branches and its bodies give to values; some come twice."""
    yield from (info.name for info in graph.input)
    yield from (tensor.name for tensor in graph.initializer)
    for node in graph.node:
        yield from filter(None, node.output)
        for inner in subgraphs(node):
            yield from graph_names(inner)


def rename_graph(graph: GraphProto, renamed: Mapping[str, str]) -> None:
    """Rename the values of a graph, its branches and its bodies, in place."""
    for info in (*graph.input, *graph.output, *graph.value_info):
        info.name = renamed.get(info.name, info.name)
    for tensor in graph.initializer:
        tensor.name = renamed.get(tensor.name, tensor.name)
    rename_values(graph.node, renamed)


def rename_values(nodes: Iterable[NodeProto], renamed: Mapping[str, str]) -> None:
    """Rename the inputs and outputs of nodes, and the values of graphs inside, in place."""
    for node in nodes:
        for names in (node.input, node.output):
            fresh = [renamed.get(name, name) for name in names]
            del names[:]
            names.extend(fresh)
        for inner in subgraphs(node):
            rename_graph(inner, renamed)
