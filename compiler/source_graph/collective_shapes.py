"""Collectives' shapes: computes the outputs of nodes of the domain `rankmesh`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import onnx_ir as ir

from .contrib_node import ContribNode, Shape

DOMAIN = "rankmesh"


def collective_shapes(one: ContribNode) -> Sequence[Shape | None]:
    """The shapes of a collective's outputs, None where only the file can declare them."""
    found = _SHAPES.get(one.node.op_type)
    return [] if found is None else found(one)


def collective_dtype(one: ContribNode, output: int) -> ir.DataType | None:
    """The dtype of an output."""
    if one.node.op_type == "Receive":
        return ir.DataType(one.int_of("dtype"))
    source = one.node.inputs[output] if output < len(one.node.inputs) else None
    return None if source is None else source.dtype


def group_size(node: ir.Node) -> int:
    """The number of ranks of a collective; 0 where the file does not say it."""
    ranks, size = node.attributes.get("ranks"), node.attributes.get("size")
    if ranks is not None:
        return len(ranks.as_ints())
    return 0 if size is None else size.as_int()


def _same(one: ContribNode) -> Sequence[Shape | None]:
    return [one.shape(at) for at in range(len(one.node.inputs))]


def _joined(one: ContribNode) -> Sequence[Shape | None]:
    shape, size = one.shape(0), group_size(one.node)
    return [(shape[0] * size, *shape[1:])] if shape and size else [None]


def _parted(one: ContribNode) -> Sequence[Shape | None]:
    shape, size = one.shape(0), group_size(one.node)
    return [(shape[0] // size, *shape[1:])] if shape and size else [None]


def _received(one: ContribNode) -> Sequence[Shape | None]:
    shape = tuple(one.node.attributes["shape"].as_ints())
    given = one.values.get(one.name(0))
    if given is not None:
        shape = tuple(given.reshape(-1).tolist())
    return [shape] if min(shape, default=0) >= 0 else [None]


_SHAPES: Mapping[str, Callable[[ContribNode], Sequence[Shape | None]]] = {
    **dict.fromkeys(("AllReduce", "AllToAll", "Broadcast", "Reduce", "Send"), _same),
    "AllGather": _joined,
    "CollectiveGather": _joined,
    "ReduceScatter": _parted,
    "CollectiveScatter": _parted,
    "Receive": _received,
}
