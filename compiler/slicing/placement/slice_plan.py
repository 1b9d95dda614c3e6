"""Slice plans: for every node its strategy, and every conversion between placements.

Localisation obeys a plan exactly: what it does not list is not done.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from ...source_graph.source_graph import SourceGraph
from .operator_node import Strategy
from .placements import WHOLE, Placement


@dataclass(frozen=True, slots=True)
class Conversion:
    """A value that is given another placement: `before` as it was computed, `after` as needed."""

    value: str
    before: Placement
    after: Placement


@dataclass(frozen=True, slots=True)
class SlicePlan:
    """How a model is sliced for `stages` x `ranks` ranks: `ranks` is those of one stage.

    `strategies` has the strategy of each node, by name; nodes that are not listed are computed
    whole on every rank. `stage_of` has the stage of each node, 0 where it is not listed. The nodes
    of `everywhere` are computed in every stage that needs them: they depend on inputs and weights
    alone. Rank r is member r % ranks of stage r // ranks.
    """

    ranks: int
    strategies: Mapping[str, Strategy]
    conversions: tuple[Conversion, ...] = ()
    stages: int = 1
    stage_of: Mapping[str, int] = field(default_factory=dict)
    everywhere: frozenset[str] = frozenset()

    @property
    def world_size(self) -> int:
        """The number of all ranks."""
        return self.ranks * self.stages

    def stage(self, node: str) -> int:
        """The stage of a node that is not in `everywhere`."""
        return self.stage_of.get(node, 0)

    def produced(self, node: str, output: int) -> Placement:
        """The placement in which a node computes an output."""
        found = self.strategies.get(node)
        return WHOLE if found is None else found.outputs[output]

    def needed(self, node: str, index: int) -> Placement:
        """The placement that a node needs of an input."""
        found = self.strategies.get(node)
        return WHOLE if found is None else found.inputs[index]


def produced_placements(graph: SourceGraph, plan: SlicePlan) -> dict[str, Placement]:
    """The placement in which each value is computed, by name; inputs of the model are whole."""
    inputs = {str(value.name): WHOLE for value in graph.model.graph.inputs}
    return inputs | {
        str(value.name): plan.produced(str(node.name), index)
        for node in graph.nodes
        for index, value in enumerate(node.outputs)
    }
