"""Prediction: the time of a plan's stages, and the memory of its ranks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ...source_graph.source_graph import SourceGraph
from ..emission.stage_layout import stage_layout
from ..placement.slice_plan import SlicePlan
from .activations import stage_activations
from .costs import HostCosts
from .stage_costs import StageCosts
from .stage_weights import is_vector, rank_bytes
from .traffic import StageTraffic


@dataclass(frozen=True, slots=True)
class Prediction:
    """The costs of a plan, which the planner compares and the report shows.

    `stage_seconds` has the time of a request in each stage, with what it receives and sends;
    `weights` the bytes of weights of each rank, `matrices` those without vectors, `activations` the
    bytes of a request's values at the worst moment of each stage.
    """

    stage_seconds: Sequence[float]
    weights: Sequence[int]
    matrices: Sequence[int]
    activations: Sequence[int]

    @property
    def seconds(self) -> float:
        """The time of a request, which passes all stages."""
        return sum(self.stage_seconds)

    @property
    def heaviest(self) -> int:
        """The bytes of weights of the rank that holds most."""
        return max(self.weights)

    @property
    def needed(self) -> Sequence[int]:
        """The bytes of weights and activations of each rank."""
        ranks = len(self.weights) // len(self.activations)
        return [one + self.activations[rank // ranks] for rank, one in enumerate(self.weights)]


def predict(graph: SourceGraph, plan: SlicePlan, costs: HostCosts) -> Prediction:
    """The costs of a plan."""
    layout = stage_layout(graph, plan)
    traffic = StageTraffic(graph, plan, layout, costs)
    prices = StageCosts(graph, plan, costs)
    times = [sum(one.seconds for one in traffic.of_stage(stage)) for stage in range(plan.stages)]
    for stage, names in enumerate(layout.nodes):
        times[stage] += sum(prices.seconds(one) for one in graph.nodes if str(one.name) in names)
    stored = rank_bytes(graph, plan, layout)
    vectors = {name for name, value in graph.weights.items() if is_vector(value)}
    return Prediction(
        times,
        [sum(weights.values()) for weights in stored],
        [sum(nbytes for (name, _), nbytes in one.items() if name not in vectors) for one in stored],
        stage_activations(graph, plan, layout),
    )
