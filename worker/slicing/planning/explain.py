"""Explanation of a plan: lists for each layer its weights, collectives and predicted time."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import onnx_ir as ir

from ..graph.source_graph import SourceGraph
from ..placement.operator_node import OperatorNode, operator_nodes
from ..placement.placements import WHOLE, Placement
from ..placement.slice_plan import SlicePlan
from .choose import stored_placements
from .costs import (
    HostCosts,
    collectives,
    conversion_seconds,
    itemsize,
    node_seconds,
    weight_bytes,
)

_NUMBERED = re.compile(r"(.*?\.\d+)(?=\.|$)")
_TWICE = re.compile(r"\b(\w+)(?:\.\1\b)+")
"""A name that wrappers of a module repeat: model.model."""


@dataclass(slots=True)
class Layer:
    """A row of the explanation: nodes of one layer, or of several that are alike.

    `weights` has the bytes of all weights, `heaviest` those of the rank that holds most, `moved`
    the bytes of the operands of collectives; `seconds` is predicted.
    """

    name: str
    nodes: int = 0
    split: int = 0
    tensors: int = 0
    weights: int = 0
    heaviest: int = 0
    collectives: Counter[str] = field(default_factory=Counter)
    moved: int = 0
    seconds: float = 0.0
    alike: int = 1
    last: str = ""

    def is_like(self, other: Layer) -> bool:
        """Whether all numbers are equal."""
        return self._numbers() == other._numbers()

    def _numbers(self) -> tuple[object, ...]:
        counted = tuple(sorted(self.collectives.items()))
        seconds = round(self.seconds, 9)
        sizes = self.weights, self.heaviest, self.moved
        return self.nodes, self.split, self.tensors, sizes, counted, seconds

    @property
    def title(self) -> str:
        """The name, and the last name of several layers."""
        return self.name if self.alike == 1 else f"{self.name} to {self.last} ({self.alike})"


def layers(graph: SourceGraph, plan: SlicePlan, costs: HostCosts) -> list[Layer]:
    """The rows of the explanation, in the order of the graph."""
    found: dict[str, Layer] = {}
    nodes = operator_nodes(graph, plan.ranks)
    places = _places(graph)
    stored = stored_placements(graph, plan)
    counted: set[str] = set()
    for node in graph.nodes:
        row = found.setdefault(places[str(node.name)], Layer(places[str(node.name)]))
        _add_node(row, nodes[str(node.name)], plan, costs)
        for value in node.inputs:
            if value is not None and value.is_initializer() and value.name not in counted:
                counted.add(str(value.name))
                _add_weight(row, value, stored[str(value.name)])
    for place, moved in _moves(graph, plan, costs, places):
        _add_move(found[place], moved)
    return _joined(list(found.values()))


def _add_node(row: Layer, node: OperatorNode, plan: SlicePlan, costs: HostCosts) -> None:
    strategy = plan.strategies.get(str(node.node.name), node.whole)
    row.nodes += 1
    row.split += any(one != WHOLE for one in strategy.outputs)
    row.seconds += node_seconds(node, strategy, costs)


def _add_weight(row: Layer, value: ir.Value, placements: Sequence[Placement]) -> None:
    tensor = value.const_value
    assert tensor is not None
    row.tensors += 1
    row.weights += tensor.nbytes
    row.heaviest += sum(weight_bytes(value, one) for one in placements)


@dataclass(frozen=True, slots=True)
class _Move:
    seconds: float
    kinds: Sequence[str]
    nbytes: int


def _add_move(row: Layer, moved: _Move) -> None:
    row.seconds += moved.seconds
    row.moved += moved.nbytes
    row.collectives.update(moved.kinds)


def _moves(
    graph: SourceGraph, plan: SlicePlan, costs: HostCosts, places: Mapping[str, str]
) -> Iterator[tuple[str, _Move]]:
    """The conversions of a plan, each with the layer that makes the value."""
    made = {str(value.name): (node, value) for node in graph.nodes for value in node.outputs}
    first = next(iter(places.values()), "")
    for one in plan.conversions:
        node, value = made.get(one.value, (None, None))
        dims, size = graph.dims[one.value], itemsize(value)
        calls = list(collectives(dims, size, one.before, one.after, plan.ranks))
        seconds = conversion_seconds(dims, size, one.before, one.after, costs)
        place = places[str(node.name)] if node is not None else first
        yield place, _Move(seconds, [call.kind for call in calls], sum(c.nbytes for c in calls))


def _places(graph: SourceGraph) -> dict[str, str]:
    """The layer of each node: that of its weights' names or of its own name, else the last one."""
    found, here = {}, "(start)"
    for node in graph.nodes:
        here = layer_of(node) or here
        found[str(node.name)] = here
    return found


def layer_of(node: ir.Node) -> str:
    """The layer that the names of a node's weights, or its own name, tell; "" where none does."""
    names = [str(v.name) for v in node.inputs if v is not None and v.is_initializer()]
    for name in (*names, str(node.name)):
        if "::" in name or name.startswith("val_"):
            continue
        path = _TWICE.sub(r"\1", name.strip("/").replace("/", "."))
        match = _NUMBERED.match(path)
        if match or "." in path:
            return match[1] if match else path.rpartition(".")[0]
    return ""


def _joined(rows: Sequence[Layer]) -> list[Layer]:
    """The rows, with neighbours that are alike as one."""
    found: list[Layer] = []
    for row in rows:
        if found and found[-1].is_like(row):
            found[-1].alike += 1
            found[-1].last = row.name
        else:
            found.append(row)
    return found


def table(rows: Sequence[Layer]) -> str:
    """The rows as text."""
    head = ("layer", "nodes split", "weights", "per rank", "collectives", "bytes", "ms")
    lines = [head, *(_cells(row) for row in rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(head))]
    return "\n".join(
        "  ".join(
            cell.ljust(width) if column in (0, 4) else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in lines
    )


def _cells(row: Layer) -> tuple[str, ...]:
    calls = ", ".join(f"{count} {kind}" for kind, count in sorted(row.collectives.items()))
    return (
        row.title,
        f"{row.split} of {row.nodes}",
        size_text(row.weights),
        size_text(row.heaviest),
        calls or "-",
        size_text(row.moved),
        f"{row.seconds * 1e3:.3f}",
    )


def size_text(nbytes: float) -> str:
    """Bytes in a fitting unit of 1,000."""
    for unit in ("B", "kB", "MB"):
        if nbytes < 1000:
            return f"{nbytes:.0f} {unit}" if unit == "B" else f"{nbytes:.1f} {unit}"
        nbytes /= 1000
    return f"{nbytes:.2f} GB"
