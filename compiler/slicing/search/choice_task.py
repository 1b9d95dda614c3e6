"""Choice task: holds the candidates for a plan, and tells which plans fit and what they cost."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ...source_graph.source_graph import SourceGraph
from ..annotation.fixed_nodes import FREE, FixedNodes
from ..placement.placements import WHOLE
from ..placement.slice_plan import SlicePlan
from ..planning.costs import HostCosts, weight_bytes
from ..planning.needed_conversions import with_conversions
from ..planning.prediction import Prediction, predict
from ..planning.propagate import Candidates
from ..planning.stage_weights import is_vector
from .solution import Solution
from .uneven_heads import has_uneven_heads

SLACK = 1.02
"""The default target: the smallest shard that is possible, and two percent."""

UNEVEN_SLACK = 1.10
"""The same where the ranks do not divide the heads of attention, which are not cut."""

_PRICES = (1e-3, 1e2, 1e4)
"""Prices of a stored byte between which a search goes on, and one more if none of them will do.

Their unit is the seconds of a request on one rank for each byte of the model.
"""


@dataclass(frozen=True, slots=True)
class Choice:
    """A plan, its prediction, how far it may be from the best, and what was not understood.

    `gap` is the part of the plan's predicted time that a better plan could save at most (0 to 1);
    None where that is not known. `search` is "solver" or "greedy"; "" where nothing was to search.
    """

    plan: SlicePlan
    prediction: Prediction
    gap: float | None
    unknown: Sequence[str] = ()
    search: str = ""


@dataclass(frozen=True, slots=True)
class ChoiceTask:
    """A graph with the candidates of its nodes, of which a plan is to be chosen.

    `memory` is as for choose_plan. `deadline` is a time of time.monotonic(). `step` is called after
    each step of a search. The placements of `fixed_by` are kept.
    """

    graph: SourceGraph
    found: Candidates
    ranks: int
    memory: int | None
    costs: HostCosts
    deadline: float
    step: Callable[[], None]
    fixed_by: FixedNodes = FREE

    @property
    def left(self) -> float:
        """The seconds until the deadline, and some where it is past."""
        return max(self.deadline - time.monotonic(), 4.0)

    def priced(self, solution: Solution) -> Choice:
        """The choice that a solution makes."""
        plan = with_conversions(self.graph, solution.strategies, self.ranks)
        prediction = predict(self.graph, plan, self.costs)
        gap = None
        if solution.least is not None and prediction.seconds:
            gap = round(max(0.0, 1 - solution.least / prediction.seconds), 9)
        return Choice(plan, prediction, gap, self.found.unknown)

    def fits(self, one: Prediction) -> bool:
        """Whether the ranks of a plan have room."""
        if self.memory is not None:
            return max(one.needed) <= self.memory
        return max(one.matrices) <= max(self.targets())

    def prices(self) -> Sequence[float]:
        """The lowest and the highest price of a stored byte to try, in seconds, and one more."""
        strategies = {name: some[0] for name, some in self.found.strategies.items()}  # all whole
        whole = predict(self.graph, SlicePlan(1, strategies), self.costs)
        unit = whole.seconds / max(whole.heaviest, 1)
        return [unit * price for price in _PRICES]

    def targets(self) -> Sequence[int]:
        """The bytes of matrices that a rank may have by default: the first that can be had counts.

        Where nearly all matrices can be split, that is their bytes by the ranks, and two percent.
        Where heads cannot be divided evenly, those that can be split may be ten percent larger.
        """
        least = self._least()
        whole = {name: weight_bytes(self.graph.weights[name], WHOLE) for name in least}
        if has_uneven_heads(self.found, self.ranks):
            rigid = sum(nbytes for name, nbytes in least.items() if nbytes == whole[name])
            parts = (sum(whole.values()) - rigid) / self.ranks
            return [int(max(UNEVEN_SLACK * parts + rigid, SLACK * sum(least.values())))]
        even = SLACK * sum(whole.values()) / self.ranks
        smallest = SLACK * sum(least.values())
        return [*([int(even)] if sum(least.values()) < even < smallest else []), int(smallest)]

    def least_bytes(self) -> int:
        """The bytes of the smallest shard, if each matrix could be stored as it is smallest.

        Vectors do not count.
        """
        return sum(self._least().values())

    def _least(self) -> dict[str, int]:
        """The fewest bytes of each matrix on a rank, by its name."""
        least: dict[str, int] = {
            name: weight_bytes(value, WHOLE)
            for name, value in self.graph.weights.items()
            if not is_vector(value)
        }
        for name, strategies in self.found.strategies.items():
            node = self.found.nodes[name].node
            for strategy in strategies:
                for value, placement in zip(node.inputs, strategy.inputs, strict=True):
                    if value is not None and value.is_initializer() and str(value.name) in least:
                        stored = weight_bytes(value, placement)
                        least[str(value.name)] = min(least[str(value.name)], stored)
        return least
