"""Plans under several limits of memory: what each costs, and which are worse than another in all.

The default is planned first, then the fastest plan, then plans for limits between the two.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from rankmesh.comm.errors import UsageError
from rankmesh.compiler.slicing.planning.host_costs import plan_costs
from rankmesh.compiler.slicing.planning.prediction import predict
from rankmesh.compiler.slicing.slicer import PlanGoal, plan_graph
from rankmesh.compiler.source_graph.source_graph import SourceGraph

_MUCH = 1 << 40
"""Bytes in which every plan fits."""

_EQUAL = 1e-9
"""The part by which predicted times have to differ."""


@dataclass(frozen=True)
class Planned:
    """A plan for `memory` bytes, None for the default, and what it needs on the heaviest rank.

    `stage_seconds` is of the slowest stage. `proved` says whether the search came to its end.
    """

    memory: int | None
    weights: int
    matrices: int
    needed: int
    seconds: float
    stage_seconds: float
    proved: bool

    def is_worse_than(self, other: Planned, stages: int) -> bool:
        """Whether another plan is better in one respect and worse in none.

        A pipeline also differs in its slowest stage and in the activations of its stages.
        """
        sizes = [(self.weights, other.weights)]
        times = [(self.seconds, other.seconds)]
        if stages > 1:
            sizes.append((self.needed, other.needed))
            times.append((self.stage_seconds, other.stage_seconds))
        if any(ours < theirs for ours, theirs in sizes):
            return False
        if any(ours < theirs * (1 - _EQUAL) for ours, theirs in times):
            return False
        smaller = any(ours > theirs for ours, theirs in sizes)
        return smaller or any(ours > theirs * (1 + _EQUAL) for ours, theirs in times)

    def __str__(self) -> str:
        limit = "default" if self.memory is None else f"{self.memory:,}"
        return f"{limit}: {self.weights:,} bytes, {self.seconds * 1e6:.2f} us"


def plans_under_limits(
    graph: SourceGraph, ranks: int, stages: int = 1, limits: int = 4, seconds: float = 30.0
) -> list[Planned]:
    """The default and the plans for limits; a limit in which no plan fits has none."""
    default = _planned(graph, PlanGoal(ranks, None, stages, seconds=seconds))
    fastest = _planned(graph, PlanGoal(ranks, _MUCH, stages, seconds=seconds))
    low, high = 0.9 * default.needed, 1.02 * max(fastest.needed, default.needed)
    spread = [int(low + (high - low) * at / limits) for at in range(limits + 1)]
    found = [default, fastest]
    for memory in sorted({default.needed, fastest.needed - 1, *spread}):
        try:
            found.append(_planned(graph, PlanGoal(ranks, memory, stages, seconds=seconds)))
        except UsageError:
            continue
    return found


def worse_plans(plans: list[Planned], stages: int = 1) -> Iterator[str]:
    """The plans that are worse than another one, of searches that came to their end."""
    for one in plans:
        better = next((two for two in plans if one.is_worse_than(two, stages)), None)
        if better is not None and one.proved:
            yield f"{one}, and with {better}"


def default_factor(plans: list[Planned]) -> float:
    """The bytes of the default's matrices to the least of all plans."""
    return plans[0].matrices / max(min(one.matrices for one in plans), 1)


def _planned(graph: SourceGraph, goal: PlanGoal) -> Planned:
    plan = plan_graph(graph, "model.onnx", goal)
    found = predict(graph, plan.slices, plan_costs(goal.ranks).together)
    sizes = found.heaviest, max(found.matrices), max(found.needed)
    proved = plan.gap is None or plan.gap < 1e-6
    return Planned(goal.memory, *sizes, found.seconds, max(found.stage_seconds), proved)
