"""Order of nodes: each behind the nodes whose values it takes, in every graph of a model.

ONNX demands this order. Published models break it, and onnxruntime sorts their nodes itself. Nodes
that are in order stay where they are, so that all ranks meet in the same collectives.
"""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Iterable, MutableSequence, Sequence

from onnx import GraphProto, NodeProto

from ....comm.errors import ModelError
from ...onnx_graph.onnx_values import subgraphs, uses


def order_nodes(graph: GraphProto, path: str) -> None:
    """Order the nodes of a graph, its branches and its bodies, in place.

    Raises ModelError, which names `path`, where a value has no producer, or more than one, and
    where nodes wait for each other.
    """
    _order(graph, frozenset(), path)


def order_stretch(nodes: MutableSequence[NodeProto], path: str) -> None:
    """Order the nodes of a function in place, but not those of graphs inside. Raises ModelError."""
    if not _is_ordered(nodes):
        _put(nodes, _ordered(nodes, path))


def _order(graph: GraphProto, outer: frozenset[str], path: str) -> None:
    given = {info.name for info in graph.input} | {one.name for one in graph.initializer}
    made = _made(graph.node, given, path)
    known = outer | given | made
    for node in graph.node:
        for inner in subgraphs(node):
            _order(inner, known, path)
    _require_known(graph, known, path)
    if not _is_ordered(graph.node):
        _put(graph.node, _ordered(graph.node, path))


def _made(nodes: Iterable[NodeProto], given: set[str], path: str) -> set[str]:
    """The values that nodes make; ModelError where one is there already."""
    made: set[str] = set()
    for node in nodes:
        for name in filter(None, node.output):
            if name in made or name in given:
                what = "another node" if name in made else "an input or a weight"
                raise ModelError(
                    f"{path}: the value '{name}' is made by {_label(node)}, and is {what}'s too; "
                    "each value has one producer. Export the model again."
                )
            made.add(name)
    return made


def _require_known(graph: GraphProto, known: frozenset[str] | set[str], path: str) -> None:
    for node in graph.node:
        for name in node.input:
            if name and name not in known:
                raise ModelError(
                    f"{path}: {_label(node)} takes the value '{name}', which no node makes, and "
                    "which is no input and no weight: the file is corrupt. Export or copy it again."
                )
    for info in graph.output:
        if info.name not in known:
            raise ModelError(
                f"{path}: the output '{info.name}' is made by no node, and is no input and no "
                "weight: the file is corrupt. Export or copy it again."
            )


def _is_ordered(nodes: Sequence[NodeProto]) -> bool:
    later = {name for node in nodes for name in node.output if name}
    for node in nodes:
        if not later.isdisjoint(uses(node)):
            return False
        later.difference_update(node.output)
    return True


def _ordered(nodes: Sequence[NodeProto], path: str) -> list[NodeProto]:
    """The nodes, each as early as the ones before it in the file allow."""
    producers = {name: place for place, node in enumerate(nodes) for name in node.output if name}
    waits: dict[int, int] = {}
    followers = defaultdict(list)
    for place, node in enumerate(nodes):
        before = {producers[name] for name in uses(node) if name in producers}
        waits[place] = len(before)
        for one in before:
            followers[one].append(place)
    ready = [place for place, count in waits.items() if not count]
    found = []
    while ready:
        place = heapq.heappop(ready)
        found.append(place)
        for follower in followers[place]:
            waits[follower] -= 1
            if not waits[follower]:
                heapq.heappush(ready, follower)
    if len(found) < len(nodes):
        stuck = next(node for place, node in enumerate(nodes) if waits[place])
        raise ModelError(
            f"{path}: {_label(stuck)} waits for its own result, through nodes that wait for each "
            "other: a graph has no cycles. Export the model again."
        )
    return [nodes[place] for place in found]


def _put(nodes: MutableSequence[NodeProto], ordered: Iterable[NodeProto]) -> None:
    copies = []
    for node in ordered:
        copies.append(NodeProto())
        copies[-1].CopyFrom(node)
    del nodes[:]
    nodes.extend(copies)


def _label(node: NodeProto) -> str:
    return f"node {node.name or node.op_type} ({node.op_type})"
