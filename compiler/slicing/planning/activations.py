"""Activations: predict the most memory that the values of a request take on one rank.

A value lives from the node that makes it to the last that needs it; a conversion makes a second
one, from its first use on. onnxruntime reuses memory in much the same way. Views count as copies.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

import onnx_ir as ir

from ...source_graph.source_graph import SourceGraph
from ..emission.stage_layout import StageLayout
from ..placement.placements import WHOLE, Placement
from ..placement.slice_plan import SlicePlan
from .costs import elements, itemsize

Copy = tuple[str, Placement]


def stage_activations(graph: SourceGraph, plan: SlicePlan, layout: StageLayout) -> Sequence[int]:
    """The bytes at the worst moment of each stage, for the usual sizes of open dimensions.

    Inputs of the model count as long as they are needed, outputs to the end.
    """
    return [_StageValues(graph, plan, layout, stage).peak() for stage in range(plan.stages)]


class _StageValues:
    """The values that a rank of one stage holds: their bytes, and from when to when."""

    def __init__(
        self, graph: SourceGraph, plan: SlicePlan, layout: StageLayout, stage: int
    ) -> None:
        self._graph = graph
        self._plan = plan
        self._layout = layout
        self._stage = stage
        self._sizes: dict[Copy, int] = {}
        self._first: dict[Copy, int] = {}
        self._last: dict[Copy, int] = {}

    def _note(self, value: ir.Value, placement: Placement, moment: int) -> None:
        copy = str(value.name), placement
        held = elements(self._graph.dims.get(copy[0]), placement)
        self._sizes[copy] = int(itemsize(value, placement) * held)
        self._first.setdefault(copy, moment)
        self._last[copy] = max(self._last.get(copy, 0), moment)

    def peak(self) -> int:
        """The bytes at the worst moment."""
        graph, plan, layout, stage = self._graph, self._plan, self._layout, self._stage
        for value in graph.model.graph.inputs:
            self._note(value, WHOLE, 0)
        if stage:
            self._note_crossing(layout.crossing[stage - 1], 0)
        nodes = [node for node in graph.nodes if str(node.name) in layout.nodes[stage]]
        for moment, node in enumerate(nodes):
            for index, used in enumerate(node.inputs):
                if used is not None and not used.is_initializer():
                    self._note(used, plan.needed(str(node.name), index), moment)
            for index, value in enumerate(node.outputs):
                self._note(value, plan.produced(str(node.name), index), moment)
        if stage < plan.stages - 1:
            self._note_crossing(layout.crossing[stage], len(nodes))
        else:
            for value in graph.model.graph.outputs:
                self._note(value, WHOLE, len(nodes))
        return _peak(self._sizes, self._first, self._last)

    def _note_crossing(self, names: Sequence[str], moment: int) -> None:
        """Values that come from the stage before, or go to the next one."""
        made = {str(value.name): value for node in self._graph.nodes for value in node.outputs}
        for name in names:
            self._note(made[name], self._layout.placements[name], moment)


def _peak(sizes: dict[Copy, int], first: dict[Copy, int], last: dict[Copy, int]) -> int:
    changes: dict[int, int] = defaultdict(int)
    for copy, size in sizes.items():
        changes[first[copy]] += size
        changes[last[copy] + 1] -= size
    live = most = 0
    for moment in sorted(changes):
        live += changes[moment]
        most = max(most, live)
    return most
