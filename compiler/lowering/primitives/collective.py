"""Collectives: communication as nodes of the domain `rankmesh` (docs/onnx-collectives.md)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias, TypedDict

import numpy as np

from ...element_types import dtypes
from ...element_types.value_types import TensorType
from ...onnx_graph.collective_nodes import DOMAIN
from ..builder import Attribute, Builder, OnnxTensor, Value, lowers

Ranks: TypeAlias = "Sequence[int] | None"


class Members(TypedDict, total=False):
    """The ONNX attributes of a group: its name, and its ranks where the file lists them."""

    group: str
    ranks: list[int]


def _members(group: str, *lists: Ranks) -> Members:
    ranks = next((list(some) for some in lists if some), [])
    return {"group": group, "ranks": ranks} if ranks else {"group": group}


def _declared(b: Builder, x: Value) -> OnnxTensor:
    """`x` as a tensor whose type the graph states, which the cut at collectives needs."""
    tensor = b.tensor(x)
    b.declare(tensor)
    return tensor


def _collective(b: Builder, op_type: str, x: Value, **attributes: Attribute) -> OnnxTensor:
    """A collective of one tensor, whose result has another shape."""
    return b.op(op_type, _declared(b, x), domain=DOMAIN, type=None, **attributes)


def _same_shape(b: Builder, op_type: str, x: Value, **attributes: Attribute) -> OnnxTensor:
    """A collective of one tensor, whose result has the same type."""
    x = _declared(b, x)
    return b.op(op_type, x, domain=DOMAIN, type=TensorType(x.dtype, x.shape), **attributes)


@lowers("AllReduce")
def all_reduce(
    b: Builder,
    x: Value,
    *,
    group: str,
    op: str = "sum",
    rank_list: Ranks = None,
    group_rank_ids: Ranks = None,
) -> Value:
    """Reduce over the group; every member gets the result."""
    return _same_shape(
        b, "AllReduce", x, **_members(group, rank_list, group_rank_ids), reduction=op
    )


@lowers("AllGather")
def all_gather(
    b: Builder,
    x: Value,
    *,
    group: str,
    rank_size: int = 0,
    rank_list: Ranks = None,
    group_rank_ids: Ranks = None,
) -> Value:
    """The members' tensors, concatenated along axis 0."""
    return _collective(
        b, "AllGather", x, **_members(group, rank_list, group_rank_ids), size=rank_size
    )


@lowers("ReduceScatter")
def reduce_scatter(
    b: Builder,
    x: Value,
    *,
    group: str,
    op: str = "sum",
    rank_size: int = 0,
    rank_list: Ranks = None,
    group_rank_ids: Ranks = None,
) -> Value:
    """Reduce over the group; each member gets its part along axis 0."""
    members = _members(group, rank_list, group_rank_ids)
    return _collective(b, "ReduceScatter", x, **members, size=rank_size, reduction=op)


@lowers("AlltoAll")
def all_to_all(
    b: Builder,
    x: Value,
    *,
    group: str,
    split_count: int,
    split_dim: int,
    concat_dim: int,
    rank_size: int = 0,
    rank_list: Ranks = None,
    group_rank_ids: Ranks = None,
) -> Value:
    """Block i along split_dim goes to member i; the received blocks are joined along concat_dim.

    The node itself exchanges blocks of axis 0, so the other axes are cut and joined around it.
    """
    x = b.tensor(x)
    if split_dim not in (0, -x.rank):
        parts = b.ops("Split", x, outputs=split_count, axis=split_dim, num_outputs=split_count)
        kind = TensorType(x.dtype, _stacked(x.shape, split_dim, split_count))
        x = b.op("Concat", *parts, axis=0, type=kind)
    members = _members(group, rank_list, group_rank_ids)
    y = _same_shape(b, "AllToAll", x, **members, size=rank_size or split_count)
    b.declare(y)
    if concat_dim in (0, -x.rank):
        return y
    blocks = b.ops("Split", y, outputs=split_count, axis=0, num_outputs=split_count)
    return b.op("Concat", *blocks, axis=concat_dim)


def _stacked(shape: tuple[int, ...] | None, axis: int, count: int) -> tuple[int, ...] | None:
    """The shape after cutting `axis` into `count` parts that are stacked along axis 0."""
    if shape is None:
        return None
    dims = list(shape)
    dims[axis] = dims[axis] // count if dims[axis] >= 0 else -1
    dims[0] = dims[0] * count if dims[0] >= 0 else -1
    return tuple(dims)


@lowers("Broadcast")
def broadcast(
    b: Builder,
    x: Value,
    *,
    group: str,
    root_rank: int = 0,
    rank_list: Ranks = None,
    group_rank_ids: Ranks = None,
) -> Value:
    """The tensors of member root_rank; a tuple in, a tuple out."""
    items = [_declared(b, item) for item in (x if isinstance(x, tuple) else (x,))]
    types = [TensorType(item.dtype, item.shape) for item in items]
    results = b.ops(
        "Broadcast",
        *items,
        outputs=len(items),
        domain=DOMAIN,
        types=types,
        **_members(group, rank_list, group_rank_ids),
        root=root_rank,
    )
    return results if isinstance(x, tuple) else results[0]


@lowers("Reduce")
def reduce(
    b: Builder,
    x: Value,
    *,
    group: str,
    dest_rank: int,
    op: str = "sum",
    rank_list: Ranks = None,
    group_rank_ids: Ranks = None,
) -> Value:
    """Reduce over the group; only member dest_rank gets a result."""
    return _same_shape(
        b, "Reduce", x, **_members(group, rank_list, group_rank_ids), root=dest_rank, reduction=op
    )


@lowers("CollectiveGather")
def collective_gather(
    b: Builder,
    x: Value,
    *,
    group: str,
    dest_rank: int,
    rank_id: int = -1,
    rank_size: int = 0,
    rank_list: Ranks = None,
    group_rank_ids: Ranks = None,
) -> Value:
    """The members' tensors along axis 0, at member dest_rank only."""
    return _collective(
        b,
        "CollectiveGather",
        x,
        **_members(group, rank_list, group_rank_ids),
        size=rank_size,
        position=rank_id,
        root=dest_rank,
    )


@lowers("CollectiveScatter")
def collective_scatter(
    b: Builder,
    x: Value,
    *,
    group: str,
    src_rank: int,
    rank_id: int = -1,
    rank_size: int = 0,
    rank_list: Ranks = None,
    group_rank_ids: Ranks = None,
) -> Value:
    """Each member gets its part of member src_rank's tensor along axis 0."""
    return _collective(
        b,
        "CollectiveScatter",
        x,
        **_members(group, rank_list, group_rank_ids),
        size=rank_size,
        position=rank_id,
        root=src_rank,
    )


@lowers("Send")
def send(
    b: Builder,
    x: Value,
    *,
    group: str,
    dest_rank: int,
    sr_tag: int = 0,
    rank_list: Ranks = None,
    group_rank_ids: Ranks = None,
) -> Value:
    """Hand x to member dest_rank; x is the result, too."""
    x = _declared(b, x)
    members = _members(group, rank_list, group_rank_ids)
    b.ops("Send", x, outputs=0, domain=DOMAIN, **members, to=dest_rank, tag=sr_tag)
    return x


@lowers("Receive")
def receive(
    b: Builder,
    *dummy: Value,
    group: str,
    src_rank: int,
    shape: Sequence[int],
    dtype: Value,
    sr_tag: int = 0,
    rank_list: Ranks = None,
    group_rank_ids: Ranks = None,
) -> Value:
    """A tensor from member src_rank; the input is an unread placeholder."""
    element = dtype if isinstance(dtype, np.dtype) else dtypes.from_type_id(dtype)
    return b.op(
        "Receive",
        domain=DOMAIN,
        type=TensorType(element, tuple(shape)),
        shape=list(shape),
        dtype=dtypes.to_onnx(element),
        **_members(group, rank_list, group_rank_ids),
        source=src_rank,
        tag=sr_tag,
    )


@lowers("NeighborExchange")
def neighbor_exchange(
    b: Builder,
    items: Value,
    *,
    group: str,
    send_rank_ids: Sequence[int],
    recv_rank_ids: Sequence[int],
    recv_shapes: Sequence[Sequence[int]],
    recv_type: np.dtype[np.generic],
    rank_list: Ranks = None,
    group_rank_ids: Ranks = None,
) -> Value:
    """items[i] goes to member send_rank_ids[i]; the i-th result comes from recv_rank_ids[i]."""
    tensors = [_declared(b, item) for item in items]
    types = [TensorType(recv_type, tuple(shape)) for shape in recv_shapes]
    return b.ops(
        "NeighborExchange",
        *tensors,
        outputs=len(types),
        domain=DOMAIN,
        types=types,
        **_members(group, rank_list, group_rank_ids),
        sends_to=list(send_rank_ids),
        receives_from=list(recv_rank_ids),
    )
