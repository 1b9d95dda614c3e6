"""Slicing plans: hold a plan with its model, for users to read, edit and save."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace

from ...comm.errors import UsageError
from ...comm.text import counted
from ..source_graph.source_graph import SourceGraph
from ..source_graph.structure import graph_fingerprint
from .annotation.annotate import write_annotated
from .emission.stage_layout import stage_layout
from .placement.operator_node import Strategy, operator_nodes
from .placement.placement_text import placement_of
from .placement.plan_file import PlanFile, plan_text, read_plan
from .placement.slice_plan import SlicePlan
from .planning.explain import layers, size_text, table
from .planning.host_costs import plan_costs
from .planning.needed_conversions import with_conversions
from .planning.plan_check import check_operators, check_plan, operators_of
from .planning.prediction import Prediction, predict

_ESTIMATED = "estimated costs (`rankmesh calibrate` measures this host's)"


class SlicingPlan:
    """How a model is sliced; `print` explains it.

    `path` is the model's file and `slices` the plan that shards obey. `sizes` has the usual sizes
    of open dimensions; `gap` says how far the predicted time may be above the least possible one,
    as a share; `unknown` names operators that are computed whole, as they have no rule. `search` is
    "solver" or "greedy", "" for a plan that was not searched; `note` says why it was greedy, and
    what to do.
    """

    def __init__(
        self,
        path: str,
        graph: SourceGraph,
        slices: SlicePlan,
        sizes: Mapping[str, int],
        gap: float | None = None,
        unknown: Sequence[str] = (),
        search: str = "",
        note: str = "",
    ) -> None:
        """Users call `plan_slices` or `read_slicing_plan`."""
        self.path = path
        self.graph = graph
        self.slices = slices
        self.sizes = sizes
        self.gap = gap
        self.unknown = unknown
        self.search = search
        self.note = note
        self._costs = plan_costs(slices.world_size)

    @property
    def ranks(self) -> int:
        """The number of all ranks."""
        return self.slices.world_size

    @property
    def whole_bytes(self) -> int:
        """The bytes of all weights of the model."""
        values = self.graph.weights.values()
        return sum(one.const_value.nbytes for one in values if one.const_value is not None)

    @property
    def weight_bytes(self) -> tuple[int, ...]:
        """The bytes of weights of each rank."""
        return tuple(self._prediction().weights)

    @property
    def needed_bytes(self) -> tuple[int, ...]:
        """The bytes of weights and activations of each rank."""
        return tuple(self._prediction().needed)

    @property
    def predicted_seconds(self) -> float:
        """The predicted time of one request, which passes all stages."""
        return self._prediction().seconds

    @property
    def stage_seconds(self) -> tuple[float, ...]:
        """The predicted time of one request in each stage, with what it receives and sends."""
        return tuple(self._prediction().stage_seconds)

    def _prediction(self) -> Prediction:
        return predict(self.graph, self.slices, self._costs.together)

    def strategy(self, node: str) -> tuple[list[str], list[str]]:
        """The placements of a node's inputs and outputs, as texts; KeyError for no such node."""
        known = self.slices.strategies.get(node)
        found = known or operator_nodes(self.graph, self.slices.ranks)[node].whole
        return [str(one) for one in found.inputs], [str(one) for one in found.outputs]

    def set_strategy(self, node: str, inputs: Sequence[str], outputs: Sequence[str]) -> None:
        """Give a node other placements; conversions follow.

        Texts are as those of `strategy`. UsageError names the reason where it cannot be.
        """
        try:
            chosen = Strategy(
                tuple(placement_of(text, self.slices.ranks) for text in inputs),
                tuple(placement_of(text, self.slices.ranks) for text in outputs),
            )
        except ValueError as error:
            raise UsageError(f"{self.path}: node {node}: {error}.") from error
        edited = replace(self.slices, strategies={**self.slices.strategies, node: chosen})
        needed = with_conversions(self.graph, edited.strategies, edited.ranks).conversions
        edited = replace(edited, conversions=needed)
        check_plan(self.graph, edited, self.path)
        self.slices = edited

    def to_json(self) -> str:
        """The text of the plan file."""
        name = os.path.basename(self.path)
        file = PlanFile(self.slices, name, graph_fingerprint(self.graph), self.sizes)
        return plan_text(file, operators_of(self.graph))

    def picture(self) -> str:
        """The graph as an SVG: layers as boxes, nodes coloured by placement, collectives."""
        from .picture.plan_picture import plan_picture

        return plan_picture(self.graph, self.slices, self._costs.together, self._summary())

    def save(self, path: str) -> None:
        """Write the plan file, which can be edited and given back."""
        with open(path, "w", encoding="utf-8") as file:
            file.write(self.to_json())

    def annotate(self, path: str) -> None:
        """Write the whole model with this plan as ONNX's device configurations (IR 11).

        Larger weights lie beside it. UsageError where the file exists or cannot be written.
        """
        write_annotated(self.graph, self.slices, path)

    def __str__(self) -> str:
        rows = layers(self.graph, self.slices, self._costs.together)
        return "\n".join([*self._summary(), "", table(rows)])

    def _summary(self) -> list[str]:
        found, slices = self._prediction(), self.slices
        weights = found.weights
        total = self.whole_bytes
        name = os.path.basename(self.path)
        stages = f" in {counted(slices.stages, 'stage')}" if slices.stages > 1 else ""
        share = max(weights) / max(total, 1)
        lines = [
            f"{name}: {counted(self.ranks, 'rank')}{stages}",
            f"weights: {size_text(total)} in all, {size_text(max(weights))} on the heaviest rank "
            f"({share:.3f}); by rank: {', '.join(map(size_text, weights))}",
        ]
        lines += self._stage_lines(found)
        seconds, alone = found.seconds, self.seconds_alone
        lines.append(
            f"predicted: {seconds * 1e3:.3f} ms a request, one rank alone {alone * 1e3:.3f} ms, by "
            + ("this host's measured costs" if self._costs.measured else _ESTIMATED)
        )
        if slices.stages > 1:
            slowest = max(found.stage_seconds)
            lines.append(f"with requests in all stages at once, one every {slowest * 1e3:.3f} ms")
            seconds = slowest
        if alone <= seconds:
            lines.append(
                "advice: one rank with the whole model, or replicas of it, would be faster. Slice "
                "it only because of its size."
            )
        if self.note:
            lines.append(self.note)
        if self.gap and self.gap >= 0.0005:
            lines.append(f"the predicted time is at most {self.gap:.1%} above the least possible")
        lines += self.graph.right_sizes
        if self.unknown:
            lines.append(f"operators without a rule, computed whole: {', '.join(self.unknown)}")
        return lines

    def _stage_lines(self, found: Prediction) -> list[str]:
        """A line for each stage of a pipeline."""
        plan = self.slices
        if plan.stages == 1:
            return []
        layout = stage_layout(self.graph, plan)
        lines = []
        for stage, seconds in enumerate(found.stage_seconds):
            first = stage * plan.ranks
            heaviest = max(found.weights[first : first + plan.ranks])
            ranks = (
                f"ranks {first} to {first + plan.ranks - 1}" if plan.ranks > 1 else f"rank {first}"
            )
            lines.append(
                f"stage {stage}: {ranks}, {counted(len(layout.nodes[stage]), 'node')}, "
                f"{size_text(heaviest)} of weights on each rank, {seconds * 1e3:.3f} ms"
            )
        return lines

    @property
    def seconds_alone(self) -> float:
        """The predicted time of one request on one rank that has the whole model."""
        return predict(self.graph, SlicePlan(1, {}), self._costs.alone).seconds


def plan_from_file(model: str, graph: SourceGraph, path: str) -> SlicingPlan:
    """The plan in a file, for the model that it was made for; UsageError where it does not fit."""
    file = read_plan(path)
    plan = SlicingPlan(model, graph, file.plan, file.sizes)
    check_operators(graph, file.operators, path)
    check_plan(graph, file.plan, path)
    if file.fingerprint != graph_fingerprint(graph):
        raise UsageError(
            f"{path}: is for another model ({file.model}): the nodes of {model} differ. Plan "
            f"again: rankmesh slice {os.path.basename(model)} --ranks {file.plan.world_size}"
        )
    return plan
