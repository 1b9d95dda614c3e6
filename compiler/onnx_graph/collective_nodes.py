"""Collective nodes: the nodes of the domain `rankmesh`, read and checked.

Their format is in docs/onnx-collectives.md.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any

from onnx import AttributeProto, GraphProto, NodeProto, helper

from ...comm.collective_call import Call, Kind, RankGroup, Reduction
from ...comm.errors import ModelError
from ...comm.text import counted
from .onnx_values import all_nodes

DOMAIN = "rankmesh"
SLICING = "rankmesh.slicing"
"""The key in metadata_props of the text that all shards of one slicing have in common. A MindIR
file has it in user_info.
"""
Groups = Mapping[str, tuple[int, ...]]
NO_GROUPS: Groups = {}
WORLD_GROUPS = ("hccl_world_group", "nccl_world_group", "mccl_world_group", "world", "")
_TYPES = {
    "group": AttributeProto.STRING,
    "ranks": AttributeProto.INTS,
    "size": AttributeProto.INT,
    "position": AttributeProto.INT,
    "reduction": AttributeProto.STRING,
    "root": AttributeProto.INT,
    "to": AttributeProto.INT,
    "source": AttributeProto.INT,
    "tag": AttributeProto.INT,
    "shape": AttributeProto.INTS,
    "dtype": AttributeProto.INT,
    "sends_to": AttributeProto.INTS,
    "receives_from": AttributeProto.INTS,
}
_MOST_RANKS = 1 << 14
"""Ranks of a lone file. The shards of a model are numbered up to 9999."""
_REQUIRED = {Kind.SEND: ("to",), Kind.RECEIVE: ("source", "shape", "dtype")}


def call_of(
    node: NodeProto, index: int, rank: int, world_size: int, path: str, groups: Groups = NO_GROUPS
) -> Call:
    """The call that a node describes.

    `groups` has the ranks of groups that the node only names. Raises ModelError where the node is
    malformed or does not fit this rank or world.
    """
    where = node_label(node, path)
    attributes = node_attributes(node, path)
    kind, reduction = _kind(node, attributes, where)
    call = Call(
        kind=kind,
        group=_group(attributes, rank, world_size, where, groups),
        index=index,
        node=node.name or node.op_type,
        reduction=reduction,
        root=attributes.get("root", 0),
        sends_to=_positions(attributes, "sends_to", "to"),
        receives_from=_positions(attributes, "receives_from", "source"),
        tag=attributes.get("tag", 0),
    )
    _check_positions(call, where)
    _check_rank(call, rank, attributes.get("position", -1), where)
    _check_operands(node, call, where)
    return call


def _kind(node: NodeProto, attributes: Mapping[str, Any], where: str) -> tuple[Kind, Reduction]:
    try:
        kind = Kind(node.op_type)
        reduction = Reduction(attributes.get("reduction", "sum"))
    except ValueError as error:
        raise ModelError(
            f"{where}: {error}; supported are {', '.join(k.value for k in Kind)} with the "
            f"reductions {', '.join(r.value for r in Reduction)}."
        ) from error
    missing = [name for name in _REQUIRED.get(kind, ()) if name not in attributes]
    if missing:
        raise ModelError(f"{where}: lacks the attribute '{missing[0]}'.")
    return kind, reduction


def node_label(node: NodeProto, path: str) -> str:
    """The name of a node in error messages."""
    return f"{path}: node {node.name} ({node.op_type})"


def node_attributes(node: NodeProto, path: str) -> dict[str, Any]:
    """The attributes of a collective, texts as str; ModelError where one is unknown or of another
    type.
    """
    return stated_attributes(node, path, _TYPES, "docs/onnx-collectives.md says")


def stated_attributes(
    node: NodeProto, path: str, types: Mapping[str, int], document: str
) -> dict[str, Any]:
    """The attributes of a node, texts as str; ModelError where one is not among `types`, as the
    `document` has them, or of another type.
    """
    found: dict[str, Any] = {}
    for attribute in node.attribute:
        if types.get(attribute.name) != attribute.type:
            raise ModelError(
                f"{node_label(node, path)}: the attribute '{attribute.name}' is unknown or of "
                f"another type than {document}; known are {', '.join(types)}."
            )
        value = helper.get_attribute_value(attribute)
        found[attribute.name] = (
            value.decode(errors="replace") if isinstance(value, bytes) else value
        )
    return found


def _positions(attributes: Mapping[str, Any], many: str, one: str) -> tuple[int, ...]:
    return (
        tuple(attributes[many])
        if many in attributes
        else (attributes[one],)
        if one in attributes
        else ()
    )


def _group(
    attributes: Mapping[str, Any], rank: int, world_size: int, where: str, groups: Groups
) -> RankGroup:
    """The group: its recorded ranks, else those that `groups` has for it, else the world by its
    name.
    """
    name, size = attributes.get("group", ""), attributes.get("size", 0)
    ranks = _recorded(name, tuple(attributes.get("ranks", ())), groups, where)
    if not ranks:
        if name not in WORLD_GROUPS:
            raise ModelError(
                f"{where}: the file does not say which ranks the group '{name}' has. Export the "
                "model with the group's rank list, or set context.group_info_file."
            )
        if size not in (0, world_size):
            raise ModelError(
                f"{where}: was sliced for {counted(size, 'rank')}, and this is a job of "
                f"{counted(world_size, 'rank')}. Start {size}."
            )
        return RankGroup(name, _everybody(world_size))
    if min(ranks) < 0 or len(set(ranks)) < len(ranks) or size not in (0, len(ranks)):
        raise ModelError(
            f"{where}: the group '{name}' is ranks {list(ranks)}"
            f"{f' and has the size {size}' if size else ''}, which no group can be."
        )
    _check_world(name, ranks, world_size, where)
    if rank not in ranks:
        raise ModelError(
            f"{where}: this file was given to rank {rank}, but its group '{name}' is ranks "
            f"{list(ranks)}: it is another rank's shard. Check the order of the files."
        )
    return RankGroup(name, ranks)


@lru_cache(1)
def _everybody(world_size: int) -> tuple[int, ...]:
    """All ranks, as one tuple for all nodes."""
    return tuple(range(world_size))


def _recorded(name: str, ranks: tuple[int, ...], groups: Groups, where: str) -> tuple[int, ...]:
    named = groups.get(name, ())
    if named and ranks and named != ranks:
        raise ModelError(
            f"{where}: the group '{name}' is ranks {list(ranks)} here and {list(named)} in the "
            f"group_info_file, which belongs to another export."
        )
    return ranks or named


def _check_world(name: str, ranks: tuple[int, ...], world_size: int, where: str) -> None:
    whole = bool(name) and name in WORLD_GROUPS
    wanted = len(ranks) if whole else max(ranks) + 1
    if world_size < wanted or (whole and world_size != wanted):
        raise ModelError(
            f"{where}: was sliced for {'' if whole else 'at least '}{counted(wanted, 'rank')} "
            f"(group '{name}' is ranks {list(ranks)}), and this is a job of "
            f"{counted(world_size, 'rank')}. Start {wanted}{'' if whole else ' or more'}."
        )


def _check_rank(call: Call, rank: int, written_for: int, where: str) -> None:
    mine = call.group.ranks.index(rank)
    if written_for not in (-1, mine):
        raise ModelError(
            f"{where}: this file was given to rank {rank}, member {mine} of the group "
            f"'{call.group.name}', but was written for member {written_for}: check the order of "
            "files."
        )


def _check_positions(call: Call, where: str) -> None:
    size = call.group.size
    for position in (call.root, *call.sends_to, *call.receives_from):
        if not 0 <= position < size:
            raise ModelError(
                f"{where}: names member {position} of a group of {counted(size, 'rank')}."
            )


def _check_operands(node: NodeProto, call: Call, where: str) -> None:
    """Require as many inputs and outputs as the operator has, all of them named."""
    wanted = (1, 1)
    if call.kind is Kind.BROADCAST:
        wanted = (max(len(node.input), 1),) * 2
    elif call.kind is Kind.RECEIVE:  # its input, if it has one, is the shape of the tensor
        wanted = min(len(node.input), 1), 1
    elif call.kind in (Kind.SEND, Kind.NEIGHBOR_EXCHANGE):
        wanted = len(call.sends_to), len(call.receives_from)
    if (len(node.input), len(node.output)) != wanted or not all([*node.input, *node.output]):
        raise ModelError(
            f"{where}: has {counted(len(node.input), 'input')} and "
            f"{counted(len(node.output), 'output')} (or nameless ones), expected {wanted[0]} and "
            f"{wanted[1]}."
        )


def places(graph: GraphProto, path: str, groups: Groups = NO_GROUPS) -> Iterator[tuple[int, int]]:
    """The (rank, world size) pairs that a lone shard can be for, in the smallest world it fits.

    `groups` has the ranks of groups that the file only names. Raises ModelError where that world
    has too many ranks.
    """
    members: set[int] = set()
    world_size = 1
    for node in all_nodes(graph.node):
        if node.domain == DOMAIN and node.op_type != "Assign":
            attributes = node_attributes(node, path)
            ranks = tuple(
                attributes.get("ranks", ()) or groups.get(attributes.get("group", ""), ())
            )
            able = _able(ranks, attributes)
            members = members & able if members and able else members | able
            peers = [
                *_positions(attributes, "sends_to", "to"),
                *_positions(attributes, "receives_from", "source"),
            ]
            least = attributes.get("size", 0) or (1 if ranks else 2)
            world_size = max(
                world_size, least, *(r + 1 for r in (*ranks, *peers, attributes.get("root", 0)))
            )
    if world_size > _MOST_RANKS:
        raise ModelError(
            f"{path}: is for {world_size} ranks, expected at most {_MOST_RANKS}: the file is "
            "corrupt."
        )
    return ((rank, world_size) for rank in sorted(members) or range(world_size))


def _able(ranks: tuple[int, ...], attributes: Mapping[str, Any]) -> set[int]:
    """The ranks that may run a node with these attributes, in a group of `ranks`; empty:
    unknown.
    """
    position = attributes.get("position", -1)
    if 0 <= position < len(ranks):
        return {ranks[position]}
    return {position} if not ranks and 0 <= position < attributes.get("size", 0) else set(ranks)
