"""Communication primitives become nodes of the domain `rankmesh`, described in docs/onnx-collectives.md."""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import dtypes
from ..collective_nodes import DOMAIN
from ..mindir.graph import TensorType
from .builder import Builder, Tensor, Value
from .registry import lowers


def _group(group: str, ranks: tuple[int, ...] | None, **more: Any) -> dict[str, Any]:
    """The attributes that say who takes part; an empty list of ranks is left out."""
    return {"group": group, **({"ranks": list(ranks)} if ranks else {}), **more}


def _declared(b: Builder, x: Value) -> Tensor:
    """`x` as a tensor whose type the graph states: whoever cuts there needs it."""
    tensor = b.tensor(x)
    b.declare(tensor)
    return tensor


@lowers("AllReduce")
def all_reduce(b: Builder, x: Value, *, group: str, op: str = "sum", rank_list: Any = None,
               group_rank_ids: Any = None) -> Value:
    """Reduce over the group; every member gets the result."""
    x = _declared(b, x)
    attributes = _group(group, rank_list or group_rank_ids, reduction=op)
    return b.op("AllReduce", x, domain=DOMAIN, type=TensorType(x.dtype, x.shape), **attributes)


@lowers("AllGather")
def all_gather(b: Builder, x: Value, *, group: str, rank_size: int = 0, rank_list: Any = None,
               group_rank_ids: Any = None) -> Value:
    """The members' tensors, concatenated along axis 0."""
    attributes = _group(group, rank_list or group_rank_ids, size=rank_size)
    return b.op("AllGather", _declared(b, x), domain=DOMAIN, **attributes)


@lowers("ReduceScatter")
def reduce_scatter(b: Builder, x: Value, *, group: str, op: str = "sum", rank_size: int = 0,
                   rank_list: Any = None, group_rank_ids: Any = None) -> Value:
    """Reduce over the group; each member gets its part along axis 0."""
    attributes = _group(group, rank_list or group_rank_ids, size=rank_size, reduction=op)
    return b.op("ReduceScatter", _declared(b, x), domain=DOMAIN, **attributes)


@lowers("AlltoAll")
def all_to_all(b: Builder, x: Value, *, group: str, split_count: int, split_dim: int, concat_dim: int,
               rank_size: int = 0, rank_list: Any = None, group_rank_ids: Any = None) -> Value:
    """Block i along split_dim goes to member i; what comes is concatenated along concat_dim.

    The node itself exchanges blocks of axis 0, so the other axes are cut and joined around it.
    """
    x = b.tensor(x)
    if split_dim not in (0, -x.rank):
        parts = b.op("Split", x, outputs=split_count, axis=split_dim, num_outputs=split_count)
        x = b.op("Concat", *parts, axis=0, type=TensorType(x.dtype, _stacked(x.shape, split_dim, split_count)))
    attributes = _group(group, rank_list or group_rank_ids, size=rank_size or split_count)
    y = b.op("AllToAll", _declared(b, x), domain=DOMAIN, type=TensorType(x.dtype, x.shape), **attributes)
    b.declare(y)
    if concat_dim in (0, -x.rank):
        return y
    blocks = b.op("Split", y, outputs=split_count, axis=0, num_outputs=split_count)
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
def broadcast(b: Builder, x: Value, *, group: str, root_rank: int = 0, rank_list: Any = None,
              group_rank_ids: Any = None) -> Value:
    """The tensors of member root_rank; a tuple in, a tuple out."""
    items = [_declared(b, item) for item in (x if isinstance(x, tuple) else (x,))]
    types = [TensorType(item.dtype, item.shape) for item in items]
    attributes = _group(group, rank_list or group_rank_ids, root=root_rank)
    result = b.op("Broadcast", *items, outputs=len(items), domain=DOMAIN, types=types, **attributes)
    if not isinstance(x, tuple):
        return result
    return result if len(items) > 1 else (result,)


@lowers("Reduce")
def reduce(b: Builder, x: Value, *, group: str, dest_rank: int, op: str = "sum", rank_list: Any = None,
           group_rank_ids: Any = None) -> Value:
    """Reduce over the group; only member dest_rank gets a result."""
    x = _declared(b, x)
    attributes = _group(group, rank_list or group_rank_ids, root=dest_rank, reduction=op)
    return b.op("Reduce", x, domain=DOMAIN, type=TensorType(x.dtype, x.shape), **attributes)


@lowers("CollectiveGather")
def collective_gather(b: Builder, x: Value, *, group: str, dest_rank: int, rank_id: int = -1, rank_size: int = 0,
                      rank_list: Any = None, group_rank_ids: Any = None) -> Value:
    """The members' tensors along axis 0, at member dest_rank only."""
    attributes = _group(group, rank_list or group_rank_ids, size=rank_size, position=rank_id, root=dest_rank)
    return b.op("CollectiveGather", _declared(b, x), domain=DOMAIN, **attributes)


@lowers("CollectiveScatter")
def collective_scatter(b: Builder, x: Value, *, group: str, src_rank: int, rank_id: int = -1, rank_size: int = 0,
                       rank_list: Any = None, group_rank_ids: Any = None) -> Value:
    """Each member gets its part of member src_rank's tensor along axis 0."""
    attributes = _group(group, rank_list or group_rank_ids, size=rank_size, position=rank_id, root=src_rank)
    return b.op("CollectiveScatter", _declared(b, x), domain=DOMAIN, **attributes)


@lowers("Send")
def send(b: Builder, x: Value, *, group: str, dest_rank: int, sr_tag: int = 0, rank_list: Any = None,
         group_rank_ids: Any = None) -> Value:
    """Hand x to member dest_rank; the primitive returns what it sent."""
    x = _declared(b, x)
    attributes = _group(group, rank_list or group_rank_ids, to=dest_rank, tag=sr_tag)
    b.op("Send", x, outputs=0, domain=DOMAIN, **attributes)
    return x


@lowers("Receive")
def receive(b: Builder, *dummy: Value, group: str, src_rank: int, shape: Any, dtype: Any, sr_tag: int = 0,
            rank_list: Any = None, group_rank_ids: Any = None) -> Value:
    """A tensor from member src_rank; the input is a placeholder that nothing is read from."""
    kind = TensorType(dtype if isinstance(dtype, np.dtype) else dtypes.from_type_id(dtype), tuple(shape))
    attributes = _group(group, rank_list or group_rank_ids, source=src_rank, tag=sr_tag)
    return b.op("Receive", domain=DOMAIN, type=kind, shape=list(shape), dtype=dtypes.to_onnx(kind.dtype), **attributes)


@lowers("NeighborExchange")
def neighbor_exchange(b: Builder, items: Value, *, group: str, send_rank_ids: Any, recv_rank_ids: Any,
                      recv_shapes: Any, recv_type: Any, rank_list: Any = None, group_rank_ids: Any = None) -> Value:
    """items[i] goes to member send_rank_ids[i]; the i-th result comes from recv_rank_ids[i]."""
    tensors = [_declared(b, item) for item in items]
    types = [TensorType(recv_type, tuple(shape)) for shape in recv_shapes]
    attributes = _group(group, rank_list or group_rank_ids, sends_to=list(send_rank_ids),
                        receives_from=list(recv_rank_ids))
    result = b.op("NeighborExchange", *tensors, outputs=len(types), domain=DOMAIN, types=types, **attributes)
    return result if len(types) != 1 else (result,)
