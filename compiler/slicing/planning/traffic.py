"""Traffic: predict the collectives of each stage, in the way in which localisation emits them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import onnx_ir as ir

from ...source_graph.dims import Dims, fixed
from ...source_graph.source_graph import SourceGraph
from ..emission.stage_layout import StageLayout, captured_values
from ..placement.placements import WHOLE, Placement
from ..placement.slice_plan import SlicePlan, produced_placements
from .costs import HostCosts, collectives, conversion_seconds, costs_of, elements, itemsize

_SIZE_BYTES = 8
"""The bytes of one size of a shape that is sent."""


@dataclass(frozen=True, slots=True)
class StageExchange:
    """The collectives for one value in a stage, or the messages that carry it to a neighbour.

    `kinds` has the collectives, `nbytes` the bytes of a rank's operands, of a Receive those of its
    result, for the usual sizes. `after` is the placement that the value gets, None for a message.
    """

    value: str
    after: Placement | None
    kinds: Sequence[str]
    nbytes: int
    seconds: float

    @property
    def crosses(self) -> bool:
        """Whether the value goes to another stage, or comes from it."""
        return self.kinds[0] in ("Send", "Receive") if self.kinds else False


class StageTraffic:
    """The exchanges of a plan's stages."""

    def __init__(
        self, graph: SourceGraph, plan: SlicePlan, layout: StageLayout, costs: HostCosts
    ) -> None:
        self._graph = graph
        self._plan = plan
        self._layout = layout
        self._costs = costs_of(graph, costs)
        self._values = {str(value.name): value for node in graph.nodes for value in node.outputs}
        self._values.update((str(value.name), value) for value in graph.model.graph.inputs)
        self._produced = produced_placements(graph, plan)

    def of_stage(self, stage: int) -> Iterator[StageExchange]:
        """The exchanges of one rank of a stage, in the order of its graph."""
        incoming = self._layout.crossing[stage - 1] if stage else ()
        arrived = {name: self._layout.placements[name] for name in incoming}
        for name in incoming:
            yield self._message("Receive", name)
        done = set[tuple[str, Placement]]()
        for name, after in self._needs(stage):
            before = arrived.get(name, self._produced.get(name))
            if before is None or before == after or (name, after) in done:
                continue  # a weight, or a value that is held so
            done.add((name, after))
            yield self._conversion(name, before, after)
        if stage < self._plan.stages - 1:
            for name in self._layout.crossing[stage]:
                yield self._message("Send", name)

    def _needs(self, stage: int) -> Iterator[tuple[str, Placement]]:
        """The placements in which the nodes of a stage and its end need values, in order."""
        names = self._layout.nodes[stage]
        for node in self._graph.nodes:
            if str(node.name) not in names:
                continue
            for value in captured_values(node):
                yield str(value.name), WHOLE
            for index, taken in enumerate(node.inputs):
                if taken is not None:
                    yield str(taken.name), self._plan.needed(str(node.name), index)
        if stage < self._plan.stages - 1:
            for name in self._layout.crossing[stage]:
                yield name, self._layout.placements[name]
        else:
            for value in self._graph.given:
                yield str(value.name), WHOLE

    def _conversion(self, name: str, before: Placement, after: Placement) -> StageExchange:
        value, dims = self._values[name], self._graph.dims[name]
        size = itemsize(value, before, after)
        made = list(collectives(dims, size, before, after, self._plan.ranks, _is_bool(value)))
        seconds = conversion_seconds(dims, size, before, after, self._costs)
        return StageExchange(
            name, after, [one.kind for one in made], sum(one.nbytes for one in made), seconds
        )

    def _message(self, kind: str, name: str) -> StageExchange:
        placement = self._layout.placements[name]
        return message(kind, self._values[name], self._graph.dims[name], placement, self._costs)


def message(
    kind: str, value: ir.Value, dims: Dims, placement: Placement, costs: HostCosts
) -> StageExchange:
    """A value that goes to the next stage ("Send") or comes ("Receive"), each rank's own part."""
    nbytes = int(itemsize(value, placement) * elements(dims, placement))
    messages = 2 if _is_open(dims, placement) else 1
    total = nbytes + (messages - 1) * _SIZE_BYTES * len(dims)
    seconds = messages * costs.latency + total * costs.exchanged_byte
    return StageExchange(str(value.name), None, [kind] * messages, total, seconds)


def _is_open(dims: Dims, placement: Placement) -> bool:
    """Whether the shape of a value goes before it."""
    split = getattr(placement, "axis", None)
    return any(fixed(dim) is None for axis, dim in enumerate(dims) if axis != split)


def _is_bool(value: ir.Value) -> bool:
    return value.dtype == ir.DataType.BOOL
