"""Collectives: the nodes of the domain `rankmesh` as MindSpore's primitives.

Attributes are those that MindSpore's parallel pass and its exporter write (docs/mindir.md).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ...element_types import dtypes
from ...element_types.value_types import TensorType
from ...mindir.graph import Constant
from ...onnx_graph.collective_nodes import WORLD_GROUPS
from ..mindir.values import MindirValue, tuple_type
from .node_conversion import NodeConversion
from .registry import converts

_WORLD = "hccl_world_group"


def _members(group: str, ranks: Sequence[int]) -> dict[str, Constant]:
    """The attributes of a group: its name, and its ranks where the node lists them."""
    name = _WORLD if group in WORLD_GROUPS else group
    if not ranks:
        return {"group": name}
    listed = tuple(np.uint32(one) for one in ranks)
    text = "WORLD_GROUP" if name == _WORLD else "-".join(map(str, ranks))
    return {"group": name, "rank_list": listed, "group_rank_ids": listed, "group_ranks": text}


@converts("rankmesh::AllReduce")
def all_reduce(
    c: NodeConversion,
    x: MindirValue,
    *,
    group: str = "",
    ranks: Sequence[int] = (),
    size: int = 0,
    position: int = -1,
    reduction: str = "sum",
) -> MindirValue:
    """The members' tensors, reduced; all members get the result."""
    members = _members(group, ranks)
    notes: dict[str, Constant] = {"fusion": 0, "index": 0, "comm_reuse": True, "no_eliminate": True}
    return c.apply("AllReduce", x, type=None, op=reduction, **members, **notes)


@converts("rankmesh::AllGather", primitive="AllGather")
@converts("rankmesh::ReduceScatter", primitive="ReduceScatter")
def gathered_or_scattered(
    c: NodeConversion,
    x: MindirValue,
    *,
    group: str = "",
    ranks: Sequence[int] = (),
    size: int = 0,
    position: int = -1,
    reduction: str = "sum",
    primitive: str,
) -> MindirValue:
    """The members' tensors along axis 0; or this member's part of their reduction."""
    members = _members(group, ranks)
    more: dict[str, Constant] = {"op": reduction} if primitive == "ReduceScatter" else {}
    many = _size(size, ranks)
    return c.apply(primitive, x, rank_size=many, fusion=0, no_eliminate=True, **members, **more)


@converts("rankmesh::AllToAll")
def all_to_all(
    c: NodeConversion,
    x: MindirValue,
    *,
    group: str = "",
    ranks: Sequence[int] = (),
    size: int = 0,
    position: int = -1,
) -> MindirValue:
    """Block i along axis 0 goes to member i."""
    many = _size(size, ranks)
    blocks: dict[str, Constant] = {
        "split_count": many,
        "rank_size": many,
        "split_dim": 0,
        "concat_dim": 0,
    }
    return c.apply("AlltoAll", x, no_eliminate=True, **blocks, **_members(group, ranks))


@converts("rankmesh::Broadcast")
def broadcast(
    c: NodeConversion,
    *values: MindirValue,
    group: str = "",
    ranks: Sequence[int] = (),
    size: int = 0,
    position: int = -1,
    root: int = 0,
) -> list[MindirValue]:
    """The tensors of one member; a tuple in, a tuple out."""
    given = c.builder.tuple(values)
    members = _members(group, ranks)
    kind = tuple_type(values)
    found = c.apply("Broadcast", given, type=kind, root_rank=root, no_eliminate=True, **members)
    return [c.builder.item(found, at) for at in range(len(values))]


@converts("rankmesh::Reduce")
def reduce(
    c: NodeConversion,
    x: MindirValue,
    *,
    group: str = "",
    ranks: Sequence[int] = (),
    size: int = 0,
    position: int = -1,
    root: int = 0,
    reduction: str = "sum",
) -> MindirValue:
    """The members' tensors, reduced, at one member."""
    return c.apply("Reduce", x, dest_rank=root, op=reduction, **_members(group, ranks))


@converts("rankmesh::CollectiveGather", primitive="CollectiveGather", peer="dest_rank")
@converts("rankmesh::CollectiveScatter", primitive="CollectiveScatter", peer="src_rank")
def rooted(
    c: NodeConversion,
    x: MindirValue,
    *,
    group: str = "",
    ranks: Sequence[int] = (),
    size: int = 0,
    position: int = -1,
    root: int = 0,
    primitive: str,
    peer: str,
) -> MindirValue:
    """The members' tensors along axis 0 at one member; or the parts of one member's tensor."""
    given: dict[str, Constant] = {"rank_size": _size(size, ranks), peer: root}
    if position >= 0:
        given["rank_id"] = position
    return c.apply(primitive, x, **given, **_members(group, ranks))


@converts("rankmesh::Send")
def send(
    c: NodeConversion,
    x: MindirValue,
    *,
    group: str = "",
    ranks: Sequence[int] = (),
    size: int = 0,
    position: int = -1,
    to: int,
    tag: int = 0,
) -> MindirValue:
    """Hand a tensor to one member."""
    message = {**_message(TensorType(x.dtype, x.shape)), "dest_rank": to, "sr_tag": tag}
    kind = TensorType(x.dtype, x.shape)
    return c.apply("Send", x, type=kind, no_eliminate=True, **message, **_members(group, ranks))


@converts("rankmesh::Receive")
def receive(
    c: NodeConversion,
    sizes: MindirValue | None = None,
    *,
    group: str = "",
    ranks: Sequence[int] = (),
    size: int = 0,
    position: int = -1,
    source: int,
    shape: Sequence[int],
    dtype: int,
    tag: int = 0,
) -> MindirValue:
    """A tensor from one member. MindSpore's primitive takes a placeholder, which nothing reads."""
    if sizes is not None and sizes.constant is not None:
        shape = c.numbers(sizes, "shape")
    if min(shape, default=0) < 0:
        raise ValueError("the shape of what it receives is open: fix the shapes by --inputShape")
    kind = TensorType(dtypes.from_onnx(dtype), tuple(shape))
    message = {**_message(kind), "src_rank": source, "sr_tag": tag}
    blank = np.zeros((), kind.dtype)
    members = _members(group, ranks)
    return c.apply("Receive", blank, type=kind, no_eliminate=True, **message, **members)


@converts("rankmesh::NeighborExchange")
def neighbor_exchange(
    c: NodeConversion,
    *values: MindirValue,
    group: str = "",
    ranks: Sequence[int] = (),
    size: int = 0,
    position: int = -1,
    sends_to: Sequence[int],
    receives_from: Sequence[int],
) -> list[MindirValue]:
    """A tensor to each of some members, and one from each of some."""
    shapes = tuple(kind.shape for kind in c.types)
    if any(shape is None or min(shape, default=0) < 0 for shape in shapes):
        raise ValueError("the shape of what it receives is open: declare it in value_info")
    found = c.apply(
        "NeighborExchange",
        c.builder.tuple(values),
        type=tuple_type([MindirValue("", kind) for kind in c.types]),
        send_rank_ids=tuple(sends_to),
        recv_rank_ids=tuple(receives_from),
        send_shapes=tuple(one.shape for one in values),
        recv_shapes=shapes,
        recv_type=c.type.dtype,
        no_eliminate=True,
        **_members(group, ranks),
    )
    return [c.builder.item(found, at) for at in range(len(c.types))]


def _message(kind: TensorType) -> dict[str, Constant]:
    """The attributes of a tensor that one member hands to another."""
    return {"shape": kind.shape, "dtype": kind.dtype}


def _size(size: int, ranks: Sequence[int]) -> int:
    """The number of members; ValueError where the node does not tell it."""
    found = size or len(ranks)
    if not found:
        raise ValueError("the number of its ranks is unknown: state the attribute 'ranks'")
    return found
