"""Which nodes of a MindIR graph matter, how often a value is used, and where a graph ends in a call."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from ..mindir.graph import Graph, Model, Node
from .buffers import IN_PLACE
from .variables import ASSIGNING

TELLING = frozenset({
    "Print", "TensorDump", "ScalarSummary", "TensorSummary", "ImageSummary", "HistogramSummary", "Assert"})
"""What shows, writes or checks values while MindSpore runs a network; no result depends on it, and it is left out."""

ORDER_ONLY = frozenset({"UpdateState"}) | TELLING
_COLLECTIVES = frozenset({
    "Send", "Receive", "AllReduce", "AllGather", "ReduceScatter", "AlltoAll", "Broadcast", "Reduce", "CollectiveGather",
    "CollectiveScatter", "NeighborExchange"})
_SIDE_EFFECTS = _COLLECTIVES | ASSIGNING | IN_PLACE


def live_nodes(graph: Graph) -> list[Node]:
    """The nodes that the result depends on or that act on others, in file order."""
    by_key = {node.key: node for node in graph.nodes}
    stack = [graph.output, *(n.key for n in graph.nodes if n.primitive in _SIDE_EFFECTS)]
    live: set[str] = set()
    while stack:
        key = stack.pop()
        if key in by_key and key not in live:
            live.add(key)
            if by_key[key].primitive not in TELLING:
                stack.extend(by_key[key].inputs)
                stack.append(by_key[key].target)
    return [node for node in graph.nodes if node.key in live]


def telling(model: Model) -> Counter[str]:
    """How often a model has what is left out."""
    return Counter(node.primitive for graph in (model.entry, *model.functions.values()) for node in live_nodes(graph)
                   if node.primitive in TELLING)


def raising(model: Model) -> frozenset[str]:
    """The functions that end in an error of the network's own, such as a check of shapes that was not met."""
    found: set[str] = set()
    while True:
        more = {name for name, graph in model.functions.items() if name not in found and any(
            node.primitive == "raise" or node.target in found for node in graph.nodes)}
        if not more:
            return frozenset(found)
        found |= more


def value_uses(graph: Graph, nodes: Sequence[Node]) -> Counter[str]:
    """How often each value of a graph is used; a Depend is the value it hands on."""
    same: dict[str, str] = {}
    for node in nodes:
        if node.primitive == "Depend" and node.inputs:
            same[node.key] = same.get(node.inputs[0], node.inputs[0])
    ends = [key for node in nodes if node.primitive not in ("Depend", *ORDER_ONLY) for key in node.inputs]
    return Counter(same.get(key, key) for key in (*ends, graph.output))


def tail_call(graph: Graph, nodes: Sequence[Node]) -> tuple[Node | None, list[Node]]:
    """The call whose result a graph hands on untouched, after which nothing happens, and the nodes before it.

    None, and all nodes, where a graph ends otherwise.
    """
    by_key = {node.key: node for node in nodes}
    last = by_key.get(graph.output)
    while last and last.primitive == "Depend":
        last = by_key.get(last.inputs[0])
    if last is None or not last.target:
        return None, list(nodes)
    after = {last.key}
    for node in nodes:
        if node is not last and not after.isdisjoint((*node.inputs, node.target)):
            after.add(node.key)
            if node.target or node.primitive in _SIDE_EFFECTS:
                return None, list(nodes)
    return last, [node for node in nodes if node.key not in after]
