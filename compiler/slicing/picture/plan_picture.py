"""Plan pictures: the layers of each stage as boxes, their nodes coloured by placement."""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir as ir

from ...source_graph.source_graph import SourceGraph
from ..emission.stage_layout import stage_layout
from ..placement.placements import WHOLE, Placement
from ..placement.slice_plan import SlicePlan
from ..planning.costs import HostCosts
from ..planning.explain import Layer, layer_names, layers, size_text
from ..planning.traffic import StageTraffic
from .drawing import Drawing, text_width
from .layer_graph import LayerGraph, LayerGraphs
from .layered_layout import Point, layered

_COLOURS = {
    "replicated": ("#e3e6ea", "#222"),
    "split": ("#9fd0f5", "#222"),
    "partial": ("#ffc971", "#222"),
    "collective": ("#b3261e", "#fff"),
    "outer": ("#fff", "#5b6570"),
}
_MEANINGS = {
    "replicated": "every rank has the whole result",
    "split": "each rank has a part",
    "partial": "each rank has a term",
    "collective": "ranks exchange",
    "outer": "made in another layer",
}
_ROW, _CHIP, _MARGIN = 34.0, 20.0, 14.0
_MOST = 400
"""Nodes of the largest layer that is drawn node by node."""


def plan_picture(
    graph: SourceGraph, plan: SlicePlan, costs: HostCosts, summary: Sequence[str]
) -> str:
    """The SVG of a plan, with lines of text above."""
    picture = _PlanPicture(graph, plan, costs)
    picture.head(summary)
    for stage in range(plan.stages):
        picture.stage(stage)
    return picture.drawing.document()


class _PlanPicture:
    """A picture that grows downwards."""

    def __init__(self, graph: SourceGraph, plan: SlicePlan, costs: HostCosts) -> None:
        self.drawing = Drawing()
        self._y = 20.0
        self._plan = plan
        layout = stage_layout(graph, plan)
        self._rows = layers(graph, plan, costs)
        places = layer_names(graph)
        self._nodes: dict[tuple[int, str], list[ir.Node]] = {}
        for stage, names in enumerate(layout.nodes):
            for node in graph.nodes:
                if str(node.name) in names:
                    self._nodes.setdefault((stage, places[str(node.name)]), []).append(node)
        traffic = StageTraffic(graph, plan, layout, costs)
        layer_of = {
            str(value.name): places[str(node.name)]
            for node in graph.nodes
            for value in node.outputs
        }
        outputs = [(str(value.name), WHOLE) for value in graph.model.graph.outputs]
        self._graphs = []
        for stage in range(plan.stages):
            ends: Sequence[tuple[str, Placement]] = outputs
            if stage < plan.stages - 1:
                ends = [(name, layout.placements[name]) for name in layout.crossing[stage]]
            self._graphs.append(LayerGraphs(plan, list(traffic.of_stage(stage)), layer_of, ends))

    def head(self, summary: Sequence[str]) -> None:
        """The summary, and what the colours mean."""
        for number, line in enumerate(summary):
            self.drawing.text((20, self._y), line, 15 if number == 0 else 12)
            self._y += 20
        x = 20.0
        for kind, (fill, colour) in _COLOURS.items():
            width = text_width(kind) + 16
            self.drawing.box((x, self._y), (width, _CHIP), fill, _edge_of(kind))
            self.drawing.text((x + width / 2, self._y + 14), kind, colour=colour, centre=True)
            self.drawing.text((x + width + 6, self._y + 14), _MEANINGS[kind])
            x += width + text_width(_MEANINGS[kind]) + 30
        self._y += _CHIP + 20

    def stage(self, number: int) -> None:
        """A stage: its layers in a band, if there are several stages."""
        first, top = len(self.drawing), self._y
        several = self._plan.stages > 1
        if several:
            ranks = self._plan.ranks
            self._y += 24
            text = f"stage {number}: rank{'s' if ranks > 1 else ''} {number * ranks}"
            text += f" to {(number + 1) * ranks - 1}" if ranks > 1 else ""
            self.drawing.text((30, self._y - 6), text, 14)
        wide = 0.0
        for row in self._rows:
            if row.stage == number and row.nodes:
                wide = max(wide, self._layer(row))
            elif row.stage == number and "Send" in row.collectives:
                self._crossing(row)
        if several:
            size = (wide + 60, self._y - top)
            self.drawing.box((20, top), size, "#eef4ee" if number % 2 else "#f6f3ec", behind=first)
        self._y += 16

    def _crossing(self, row: Layer) -> None:
        """A mark for all that goes to the next stage."""
        text = f"{row.collectives['Send']} Send to stage {row.stage + 1}: {size_text(row.moved)}"
        width = text_width(text) + 20
        self.drawing.box((60, self._y), (width, _CHIP), _COLOURS["collective"][0])
        self.drawing.text((60 + width / 2, self._y + 14), text, colour="#fff", centre=True)
        self.drawing.line([(60 + width / 2, self._y + _CHIP), (60 + width / 2, self._y + 60)])
        self._y += _CHIP + 8

    def _layer(self, row: Layer) -> float:
        """A layer as a box; its width."""
        nodes = self._nodes[row.stage, row.name]
        graph = self._graphs[row.stage].of(nodes)
        title, facts = _title(row), _facts(row, graph)
        drawn = len(graph.vertices) <= _MOST
        if not drawn:
            facts += f"; {len(graph.vertices)} nodes, which are too many to draw"
        widths = {
            name: text_width(vertex.label) + 16 for name, vertex in graph.vertices.items() if drawn
        }
        layout = layered(widths, graph.edges if drawn else [])
        wide = max(layout.width, text_width(title, 13), text_width(facts)) + 2 * _MARGIN
        rows = layout.rows if widths else 0
        size = (wide, 46 + rows * _ROW)
        self.drawing.box((40, self._y), size, "#fff", "#c3cad2")
        self.drawing.text((40 + _MARGIN, self._y + 18), title, 13)
        self.drawing.text((40 + _MARGIN, self._y + 34), facts, colour="#5b6570")
        left, top = 40 + (wide - layout.width) / 2, self._y + 46
        for points in layout.lines:
            self._edge([(left + x, top + y * _ROW) for x, y in points])
        for name, (x, y) in layout.places.items():
            if name in graph.vertices:
                vertex, corner = graph.vertices[name], (left + x - widths[name] / 2, top + y * _ROW)
                fill, colour = _COLOURS[vertex.kind]
                edge = _edge_of(vertex.kind)
                self.drawing.box(corner, (widths[name], _CHIP), fill, edge, vertex.hint)
                middle = (left + x, top + y * _ROW + 14)
                self.drawing.text(middle, vertex.label, colour=colour, centre=True)
        self._y += size[1] + 12
        return wide

    def _edge(self, points: Sequence[Point]) -> None:
        """A line from the foot of one vertex to the head of another."""
        (x, y), *others = points
        middle = [(one, at + _CHIP / 2) for one, at in others[:-1]]
        self.drawing.line([(x, y + _CHIP), *middle, others[-1]])


def _edge_of(kind: str) -> str:
    return "#c3cad2" if kind == "outer" else "none"


def _title(row: Layer) -> str:
    return row.name if row.alike == 1 else f"{row.name} to {row.last}   x{row.alike}"


def _facts(row: Layer, graph: LayerGraph) -> str:
    """The numbers of a layer."""
    found = []
    if row.weights:
        found.append(f"weights {size_text(row.weights)}, {size_text(row.heaviest)} on a rank")
    if row.moved:
        calls = ", ".join(f"{count} {kind}" for kind, count in sorted(row.collectives.items()))
        found.append(f"{calls}: {size_text(row.moved)}")
    found.append(f"{row.seconds * 1e3:.3f} ms")
    if graph.hidden:
        found.append(f"{graph.hidden} nodes of shapes and masks are not drawn")
    return "; ".join(found)
