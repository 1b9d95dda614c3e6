"""Analysis of MindIR functions: live nodes, uses of values, tail calls and the call graph."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from functools import cached_property

from ...mindir.graph import Graph, MindirModel, MindirNode
from ..builder import ASSIGNING, COLLECTIVES, IN_PLACE

DIAGNOSTICS = frozenset(
    {
        "Print",
        "TensorDump",
        "ScalarSummary",
        "TensorSummary",
        "ImageSummary",
        "HistogramSummary",
        "Assert",
    }
)
"""Primitives that show, write or check values while MindSpore runs a network. They are left out."""
ORDER_ONLY = frozenset({"UpdateState"}) | DIAGNOSTICS
"""Primitives on which no result depends."""
_SIDE_EFFECTS = COLLECTIVES | ASSIGNING | IN_PLACE


def live_nodes(graph: Graph) -> list[MindirNode]:
    """The nodes that the result depends on or that have side effects, in file order."""
    by_key = {node.key: node for node in graph.nodes}
    stack = [graph.output, *(n.key for n in graph.nodes if n.primitive in _SIDE_EFFECTS)]
    live: set[str] = set()
    while stack:
        key = stack.pop()
        if key in by_key and key not in live:
            live.add(key)
            if by_key[key].primitive not in DIAGNOSTICS:
                stack += by_key[key].inputs
                stack.append(by_key[key].target)
    return [node for node in graph.nodes if node.key in live]


def diagnostics(model: MindirModel) -> Counter[str]:
    """How often a model has each of the primitives that are left out."""
    nodes = (node for graph in model.graphs for node in live_nodes(graph))
    return Counter(node.primitive for node in nodes if node.primitive in DIAGNOSTICS)


def raising_functions(model: MindirModel) -> frozenset[str]:
    """The functions that end in an error of the network's own, such as a failed check of shapes."""
    found: set[str] = set()
    while True:
        more = {
            name
            for name, graph in model.functions.items()
            if name not in found
            and any(node.primitive == "raise" or node.target in found for node in graph.nodes)
        }
        if not more:
            return frozenset(found)
        found |= more


def value_uses(graph: Graph, nodes: Sequence[MindirNode]) -> Counter[str]:
    """How often each value of a graph is used; a Depend is the value that it hands on."""
    same: dict[str, str] = {}
    for node in nodes:
        if node.primitive == "Depend" and node.inputs:
            same[node.key] = same.get(node.inputs[0], node.inputs[0])
    users = [node for node in nodes if node.primitive not in ("Depend", *ORDER_ONLY)]
    ends = [key for node in users for key in node.inputs]
    return Counter(same.get(key, key) for key in (*ends, graph.output))


def tail_call(
    graph: Graph, nodes: Sequence[MindirNode]
) -> tuple[MindirNode | None, list[MindirNode]]:
    """The call whose result a graph returns untouched, and the nodes before it.

    (None, all nodes) where a graph ends otherwise, or where side effects follow the call.
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


class CallGraph:
    """Functions and those that they name; a loop is a function that reaches itself."""

    def __init__(self, model: MindirModel) -> None:
        self._model = model
        self._found: dict[tuple[str, str, frozenset[str]], bool] = {}

    @cached_property
    def _named(self) -> Mapping[str, Counter[str]]:
        functions = self._model.functions
        return {name: _names(graph, functions) for name, graph in functions.items()}

    @cached_property
    def _callers(self) -> Counter[str]:
        total = _names(self._model.entry, self._model.functions)
        for names in self._named.values():
            total.update(names)
        return total

    def shared(self, name: str) -> bool:
        """Whether a function is named more than once."""
        return self._callers[name] > 1

    def reaches(self, start: str, end: str, without: Collection[str] = ()) -> bool:
        """Whether one or more calls may lead from `start` to `end`, none of them over `without`."""
        key = (start, end, frozenset(without))
        if key not in self._found:
            self._found[key] = self._search(start, end, set(without))
        return self._found[key]

    def _search(self, start: str, end: str, seen: set[str]) -> bool:
        stack = [start]
        while stack:
            names = self._named[stack.pop()]
            if end in names:
                return True
            stack += names.keys() - seen
            seen |= names.keys()
        return False


def _names(graph: Graph, functions: Mapping[str, Graph]) -> Counter[str]:
    named = [key for node in live_nodes(graph) for key in (*node.inputs, node.target)]
    return Counter(key for key in (*named, graph.output) if key in functions)
