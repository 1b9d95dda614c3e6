"""Explanation of a plan: lists for each layer its weights, collectives and predicted time."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import onnx_ir as ir

from ...source_graph.source_graph import SourceGraph
from ..emission.stage_layout import stage_layout
from ..placement.placements import WHOLE
from ..placement.slice_plan import SlicePlan
from .costs import HostCosts, weight_bytes
from .stage_costs import StageCosts
from .stage_weights import StoredWeight
from .traffic import StageExchange, StageTraffic

_NUMBERED = re.compile(r"(.*?\.\d+)(?=\.|$)")
_TWICE = re.compile(r"\b(\w+)(?:\.\1\b)+")
"""A name that wrappers of a module repeat: model.model."""


@dataclass(slots=True)
class Layer:
    """A row of the explanation: nodes of one layer in one stage, or of several that are alike.

    A row without nodes tells what the stage receives, or sends. `weights` has the bytes of all
    weights, `heaviest` those of the rank that holds most, `moved` the bytes of the operands of
    collectives; `seconds` is predicted.
    """

    name: str
    stage: int = 0
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
        return self.stage, self.nodes, self.split, self.tensors, sizes, counted, seconds

    @property
    def title(self) -> str:
        """The name, and the last name of several layers."""
        return self.name if self.alike == 1 else f"{self.name} to {self.last} ({self.alike})"


def layers(graph: SourceGraph, plan: SlicePlan, costs: HostCosts) -> list[Layer]:
    """The rows of the explanation, stage by stage, in the order of the graph."""
    explanation = _Explanation(graph, plan, costs)
    return [row for stage in range(plan.stages) for row in _joined(explanation.rows(stage))]


class _Explanation:
    """The rows of each stage of a plan."""

    def __init__(self, graph: SourceGraph, plan: SlicePlan, costs: HostCosts) -> None:
        self._graph = graph
        self._plan = plan
        self._layout = stage_layout(graph, plan)
        self._traffic = StageTraffic(graph, plan, self._layout, costs)
        self._places = layer_names(graph)
        self._prices = StageCosts(graph, plan, costs)
        self._makers = {
            str(value.name): str(node.name) for node in graph.nodes for value in node.outputs
        }

    def rows(self, stage: int) -> list[Layer]:
        """The rows of a stage: values that it receives, its layers, values that it sends."""
        names = self._layout.nodes[stage]
        nodes = [node for node in self._graph.nodes if str(node.name) in names]
        places = [self._places[str(node.name)] for node in nodes]
        found = {place: Layer(place, stage) for place in places}
        for place, node in zip(places, nodes, strict=True):
            self._add_node(found[place], node)
        for place, weight in self._first_uses(nodes, places):
            self._add_weight(found[place], weight)
        ends = {
            "Receive": Layer(f"(from stage {stage - 1})", stage),
            "Send": Layer(f"(to stage {stage + 1})", stage),
        }
        for one in self._traffic.of_stage(stage):
            maker = self._makers.get(one.value, "")
            place = self._places[maker] if maker in names else next(iter(found), "")
            _add_exchange(ends[one.kinds[0]] if one.crosses else found[place], one)
        receive, send = ends.values()
        return [row for row in (receive, *found.values(), send) if row.nodes or row.collectives]

    def _add_node(self, row: Layer, node: ir.Node) -> None:
        held = [self._plan.produced(str(node.name), i) for i in range(len(node.outputs))]
        row.nodes += 1
        row.split += any(one != WHOLE for one in held)
        row.seconds += self._prices.seconds(node)

    def _first_uses(
        self, nodes: Sequence[ir.Node], places: Sequence[str]
    ) -> Iterator[tuple[str, StoredWeight]]:
        """The weights that a stage stores, each with the layer that takes it first."""
        seen: set[StoredWeight] = set()
        for place, node in zip(places, nodes, strict=True):
            for weight in self._prices.weights(node):
                if weight not in seen:
                    seen.add(weight)
                    yield place, weight

    def _add_weight(self, row: Layer, weight: StoredWeight) -> None:
        name, placement = weight
        tensor = self._graph.weights[name].const_value
        assert tensor is not None
        row.tensors += 1
        row.weights += tensor.nbytes
        row.heaviest += weight_bytes(self._graph.weights[name], placement)


def _add_exchange(row: Layer, exchange: StageExchange) -> None:
    row.seconds += exchange.seconds
    row.moved += exchange.nbytes
    row.collectives.update(exchange.kinds)


def layer_names(graph: SourceGraph) -> dict[str, str]:
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
    """The rows as text; with a column of stages where there are several."""
    head = ("stage", "layer", "nodes split", "weights", "per rank", "collectives", "bytes", "ms")
    lines = [head, *(_cells(row) for row in rows)]
    left = {0, 1, 5}
    if all(row.stage == 0 for row in rows):
        lines, left = [line[1:] for line in lines], {0, 4}
    widths = [max(len(line[column]) for line in lines) for column in range(len(lines[0]))]
    return "\n".join(
        "  ".join(
            cell.ljust(width) if column in left else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in lines
    )


def _cells(row: Layer) -> tuple[str, ...]:
    calls = ", ".join(f"{count} {kind}" for kind, count in sorted(row.collectives.items()))
    return (
        str(row.stage),
        row.title,
        f"{row.split} of {row.nodes}" if row.nodes else "-",
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
