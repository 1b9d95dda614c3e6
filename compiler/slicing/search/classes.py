"""Classes: nodes and values that look alike, as in the layers of a transformer, decided once.

The nodes of a class get the same strategy. Two nodes are alike if they have the same operator,
attributes, dimensions and strategies, and so have their neighbours, some steps far. Any such
grouping is sound: each value of a class offers what every consumer of the class needs.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass

import onnx_ir as ir

from ...source_graph.source_graph import SourceGraph, operator
from ..planning.propagate import Candidates

_STEPS = 3
"""How far nodes look at their neighbours. Larger numbers make more classes, and better plans."""


@dataclass(frozen=True, slots=True)
class NodeClasses:
    """The class of each node and of each value, by name; classes are numbers from 0."""

    nodes: Mapping[str, int]
    values: Mapping[str, int]
    node_members: Sequence[Sequence[ir.Node]]
    value_members: Sequence[Sequence[ir.Value]]


def classes_of(graph: SourceGraph, found: Candidates) -> NodeClasses:
    """The classes of a graph."""
    nodes = graph.nodes
    colours = _numbered({str(node.name): _look(graph, found, node) for node in nodes})
    for _ in range(_STEPS):
        finer = _numbered({str(node.name): _around(node, colours) for node in nodes})
        if len(set(finer.values())) == len(set(colours.values())):
            break
        colours = finer
    values = _value_classes(graph, colours)
    node_members: list[list[ir.Node]] = [[] for _ in range(len(set(colours.values())))]
    for node in nodes:
        node_members[colours[str(node.name)]].append(node)
    value_members: list[list[ir.Value]] = [[] for _ in range(len(set(values.values())))]
    for value in _all_values(graph):
        value_members[values[str(value.name)]].append(value)
    return NodeClasses(colours, values, node_members, value_members)


def _numbered(looks: Mapping[str, Hashable]) -> dict[str, int]:
    """A number for each different look."""
    numbers: dict[Hashable, int] = {}
    return {name: numbers.setdefault(look, len(numbers)) for name, look in looks.items()}


def _look(graph: SourceGraph, found: Candidates, node: ir.Node) -> Hashable:
    """All of a node that matters by itself."""
    seen = found.nodes[str(node.name)]
    attributes = sorted(
        (one.name, repr(one.value)) for one in node.attributes.values() if not _is_graph(one)
    )
    inputs = tuple(
        None if value is None else (value.is_graph_input(), value.is_initializer())
        for value in node.inputs
    )
    ends = tuple(value.is_graph_output() for value in node.outputs)
    strategies = frozenset(found.strategies[str(node.name)])
    types = tuple(value.dtype for value in node.outputs)
    shapes = seen.inputs, seen.outputs
    return operator(node), tuple(attributes), inputs, ends, strategies, types, shapes


def _is_graph(one: ir.Attr) -> bool:
    return one.type in (ir.AttributeType.GRAPH, ir.AttributeType.GRAPHS)


def _around(node: ir.Node, colours: Mapping[str, int]) -> Hashable:
    """A node's class with those of the nodes before and after it."""
    before = []
    for value in node.inputs:
        producer = value.producer() if value is not None else None
        index = value.index() if value is not None else None
        before.append((colours.get(str(producer.name)), index) if producer is not None else None)
    after = [
        tuple(sorted({(colours.get(str(use.node.name), -1), use.idx) for use in value.uses()}))
        for value in node.outputs
    ]
    return colours[str(node.name)], tuple(before), tuple(after)


def _all_values(graph: SourceGraph) -> list[ir.Value]:
    produced = [value for node in graph.nodes for value in node.outputs if value.name]
    return [*graph.model.graph.inputs, *graph.weights.values(), *produced]


def _value_classes(graph: SourceGraph, colours: Mapping[str, int]) -> dict[str, int]:
    """Values are alike if alike nodes produce them; inputs and weights, if alike nodes use them."""
    looks: dict[str, Hashable] = {}
    for value in (*graph.model.graph.inputs, *graph.weights.values()):
        uses = Counter((colours.get(str(use.node.name), -1), use.idx) for use in value.uses())
        kind = value.is_initializer(), value.is_graph_output(), value.dtype
        dims = graph.dims.get(str(value.name))
        looks[str(value.name)] = ("given", kind, dims, frozenset(uses.items()))
    for node in graph.nodes:
        for index, value in enumerate(node.outputs):
            if value.name:
                looks[str(value.name)] = ("node", colours[str(node.name)], index)
    return _numbered(looks)


def uses_of(classes: NodeClasses, graph: SourceGraph) -> Mapping[int, Sequence[tuple[int, int]]]:
    """For each class of values, the (class of nodes, input) pairs that use one of its values."""
    found: dict[int, dict[tuple[int, int], None]] = defaultdict(dict)
    for node in graph.nodes:
        own = classes.nodes[str(node.name)]
        for index, value in enumerate(node.inputs):
            if value is not None:
                found[classes.values[str(value.name)]][own, index] = None
    return {value: list(uses) for value, uses in found.items()}
