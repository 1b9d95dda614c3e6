"""What the ONNX operators of the domain `rankmesh` mean: see docs/onnx-collectives.md."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from onnx import GraphProto, NodeProto, helper

from ..comm.collectives.base import Call, Group, Kind, Reduction
from ..comm.errors import ModelError
from . import dtypes
from .mindir.graph import TensorType

DOMAIN = "rankmesh"
WORLD_GROUPS = ("hccl_world_group", "nccl_world_group", "mccl_world_group", "world", "")
_GATHERING = {Kind.ALL_GATHER, Kind.GATHER}
_SCATTERING = {Kind.REDUCE_SCATTER, Kind.SCATTER}
_ROOTED = {Kind.REDUCE, Kind.GATHER}


def call_of(node: NodeProto, index: int, rank: int, world_size: int, path: str) -> Call:
    """The call that a node stands for; ModelError where its attributes do not fit this rank or world."""
    attributes = {a.name: helper.get_attribute_value(a) for a in node.attribute}
    where = f"{path}: node {node.name} ({node.op_type})"
    try:
        kind = Kind(node.op_type)
        reduction = Reduction(_text(attributes.get("reduction", "sum")))
    except ValueError as error:
        raise ModelError(f"{where}: {error}; supported are {', '.join(Kind)} with the reductions "
                         f"{', '.join(Reduction)}.") from error
    group = _group(attributes, rank, world_size, where)
    call = Call(
        kind=kind, group=group, index=index, node=node.name or node.op_type, reduction=reduction,
        root=attributes.get("root", 0), sends_to=_positions(attributes, "sends_to", "to"),
        receives_from=_positions(attributes, "receives_from", "source"), tag=attributes.get("tag", 0))
    _check_positions(call, attributes, where)
    return call


def _text(value: Any) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)


def _positions(attributes: dict[str, Any], many: str, one: str) -> tuple[int, ...]:
    return tuple(attributes[many]) if many in attributes else (attributes[one],) if one in attributes else ()


def _group(attributes: dict[str, Any], rank: int, world_size: int, where: str) -> Group:
    """The group by its recorded ranks, else the whole world if its name says so."""
    name = _text(attributes.get("group", ""))
    ranks = tuple(attributes.get("ranks", ()))
    if not ranks:
        if name not in WORLD_GROUPS:
            raise ModelError(f"{where}: the file does not say which ranks the group '{name}' has. Export the model "
                             f"with the group's rank list.")
        size = attributes.get("size", 0) or world_size
        if size != world_size:
            raise ModelError(f"{where}: was sliced for {size} ranks, and {world_size} were started. Start {size}.")
        return Group(name, tuple(range(world_size)))
    if max(ranks) >= world_size or (name in WORLD_GROUPS and len(ranks) != world_size):
        wanted = len(ranks) if name in WORLD_GROUPS else max(ranks) + 1
        raise ModelError(f"{where}: was sliced for {'' if name in WORLD_GROUPS else 'at least '}{wanted} ranks "
                         f"(group '{name}' is ranks {list(ranks)}), and {world_size} were started. Start "
                         f"{wanted}{'' if name in WORLD_GROUPS else ' or more'}.")
    if rank not in ranks:
        raise ModelError(f"{where}: this file was given to rank {rank}, but its group '{name}' is ranks "
                         f"{list(ranks)}: it is another rank's shard. Check the order of the files.")
    return Group(name, ranks)


def _check_positions(call: Call, attributes: dict[str, Any], where: str) -> None:
    size = call.group.size
    for position in (call.root, *call.sends_to, *call.receives_from):
        if not 0 <= position < size:
            raise ModelError(f"{where}: names member {position} of a group of {size} ranks.")


def rank_and_world(graph: GraphProto) -> tuple[int, int]:
    """A rank that a shard can be for, and the smallest world it fits: the lowest rank in all its groups."""
    members, world_size = set[int](), 1
    for node in graph.node:
        if node.domain == DOMAIN:
            attributes = {a.name: helper.get_attribute_value(a) for a in node.attribute}
            ranks = set(attributes.get("ranks", ()))
            members = members & ranks if members and ranks else members | ranks
            peers = [*_positions(attributes, "sends_to", "to"), *_positions(attributes, "receives_from", "source")]
            world_size = max(world_size, attributes.get("size", 0), *(r + 1 for r in (*ranks, *peers, 0)))
    return min(members, default=0), world_size


def position_recorded(node: NodeProto) -> int:
    """The position in its group for which a node was written, -1 where it does not say."""
    return next((a.i for a in node.attribute if a.name == "position"), -1)


def result_types(node: NodeProto, call: Call, inputs: Sequence[TensorType]) -> list[TensorType]:
    """The types of a collective's results, from those of its inputs."""
    if call.kind is Kind.SEND:
        return []
    if call.kind is Kind.RECEIVE:
        attributes = {a.name: helper.get_attribute_value(a) for a in node.attribute}
        return [TensorType(dtypes.from_onnx(attributes["dtype"]), tuple(attributes["shape"]))]
    if call.kind is Kind.NEIGHBOR_EXCHANGE:
        return [TensorType(inputs[0].dtype, None) for _ in node.output]
    if call.kind in _GATHERING:
        return [_first_axis(inputs[0], lambda dim: dim * call.group.size)]
    if call.kind in _SCATTERING:
        return [_first_axis(inputs[0], lambda dim: dim // call.group.size)]
    return list(inputs)


def result_shapes(call: Call, shapes: Sequence[tuple[int, ...]]) -> list[tuple[int, ...]]:
    """The shapes of a collective's results at run time, where the plan does not fix them."""
    if call.kind in _GATHERING:
        return [(shapes[0][0] * call.group.size, *shapes[0][1:])]
    if call.kind in _SCATTERING:
        return [(shapes[0][0] // call.group.size, *shapes[0][1:])]
    return list(shapes)


def _first_axis(kind: TensorType, change: Any) -> TensorType:
    if not kind.shape:
        return kind
    first = kind.shape[0]
    return TensorType(kind.dtype, (change(first) if first >= 0 else -1, *kind.shape[1:]))


def without_meaning(call: Call, rank: int, inputs_meaningless: bool) -> bool:
    """Whether a collective's result on `rank` says nothing: Reduce and CollectiveGather elsewhere than at the root."""
    mine = call.group.ranks.index(rank)
    if call.kind in _ROOTED and mine != call.root:
        return True
    if call.kind in (Kind.RECEIVE, Kind.NEIGHBOR_EXCHANGE):
        return False
    if call.kind in (Kind.BROADCAST, Kind.SCATTER) and mine != call.root:
        return False
    return inputs_meaningless
