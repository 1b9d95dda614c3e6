"""Layer graphs: the nodes of one layer and the collectives between them, for a picture."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import onnx_ir as ir

from ..placement.placements import WHOLE, Partial, Placement
from ..placement.slice_plan import SlicePlan
from ..planning.traffic import StageExchange

_PLUMBING = {ir.DataType.INT64, ir.DataType.INT32, ir.DataType.BOOL, None}
"""Types of shapes, positions and masks."""


@dataclass(frozen=True, slots=True)
class Vertex:
    """A node, a collective, or an outer value: its label, its kind, and a hint with more facts.

    The kind is replicated, split, partial, collective, or outer.
    """

    label: str
    kind: str
    hint: str


@dataclass(slots=True)
class LayerGraph:
    """The vertices and edges that are drawn of a layer.

    `hidden` counts the nodes that compute shapes, positions and masks alone, and are left out.
    """

    vertices: dict[str, Vertex] = field(default_factory=dict)
    edges: list[tuple[str, str]] = field(default_factory=list)
    hidden: int = 0


class LayerGraphs:
    """Makes the graphs of the layers of one stage."""

    def __init__(
        self,
        plan: SlicePlan,
        exchanges: Sequence[StageExchange],
        layer_of: Mapping[str, str],
        ends: Sequence[tuple[str, Placement]],
    ) -> None:
        """`layer_of` has the layer that makes each value, `ends` what the stage gives away."""
        self._plan = plan
        self._collectives = {(one.value, one.after): one for one in exchanges if one.kinds}
        self._layer_of = layer_of
        self._ends = ends
        self._drawn: set[str] = set()

    def of(self, nodes: Sequence[ir.Node]) -> LayerGraph:
        """The graph of a layer's nodes."""
        found = LayerGraph()
        makers: dict[str, str] = {}
        for node in nodes:
            name = str(node.name)
            if _is_plumbing(node, self._plan):
                found.hidden += 1
                continue
            sources = [
                self._source(value, self._plan.needed(name, index), makers, found)
                for index, value in enumerate(node.inputs)
                if value is not None and not value.is_initializer()
            ]
            found.vertices[name] = _vertex(node, self._plan)
            found.edges += [(one, name) for one in dict.fromkeys(sources) if one]
            makers.update((str(value.name), name) for value in node.outputs)
        for value_name, placement in self._ends:
            exchange = self._collectives.get((value_name, placement))
            if exchange is not None and value_name in makers:
                _collective(exchange, makers[value_name], found)
        self._drawn |= found.vertices.keys()
        return found

    def _source(
        self,
        value: ir.Value,
        needed: Placement,
        makers: Mapping[str, str],
        found: LayerGraph,
    ) -> str:
        """The vertex that a node takes a value of; "" for what is not drawn."""
        name = str(value.name)
        source = makers.get(name) or self._outer(value, found)
        exchange = self._collectives.get((name, needed))
        if exchange is None or f"{name}\n{needed}" in self._drawn:
            return source
        return _collective(exchange, source, found)

    def _outer(self, value: ir.Value, found: LayerGraph) -> str:
        """A vertex for a value of another layer, or an input of the model."""
        if value.dtype in _PLUMBING:
            return ""
        name = str(value.name)
        layer = self._layer_of.get(name)
        label = f"input {name}" if layer is None else f"from {layer}"
        found.vertices.setdefault(f"{name}\nouter", Vertex(label, "outer", name))
        return f"{name}\nouter"


def _collective(exchange: StageExchange, source: str, found: LayerGraph) -> str:
    """The vertex of a collective, which is made once."""
    vertex = f"{exchange.value}\n{exchange.after}"
    if vertex not in found.vertices:
        hint = f"{exchange.value} becomes {exchange.after}: {exchange.nbytes:,} bytes of each rank"
        found.vertices[vertex] = Vertex(" + ".join(exchange.kinds), "collective", hint)
        if source:
            found.edges.append((source, vertex))
    return vertex


def _vertex(node: ir.Node, plan: SlicePlan) -> Vertex:
    name = str(node.name)
    ins = [plan.needed(name, index) for index in range(len(node.inputs))]
    outs = [plan.produced(name, index) for index in range(len(node.outputs))]
    shown = ["; ".join(map(str, side)) for side in (ins, outs)]
    return Vertex(node.op_type, kind_of(outs), f"{name}\n{shown[0]}\nto {shown[1]}")


def kind_of(placements: Sequence[Placement]) -> str:
    """How a node's outputs are held, in a word."""
    parts = [one for one in placements if one != WHOLE]
    if not parts:
        return "replicated"
    return "partial" if isinstance(parts[0], Partial) else "split"


def _is_plumbing(node: ir.Node, plan: SlicePlan) -> bool:
    whole = all(plan.produced(str(node.name), i) == WHOLE for i in range(len(node.outputs)))
    return whole and all(value.dtype in _PLUMBING for value in node.outputs)
