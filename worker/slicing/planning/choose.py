"""Choice of a plan: strategies that fit the memory, and the conversions between them.

The price of a stored byte is searched: the lowest price whose plan fits the target is the plan
with the least predicted time that does.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ..annotation.fixed_nodes import FREE, FixedNodes
from ..emission.stage_layout import stage_layout
from ..graph.source_graph import SourceGraph
from ..placement.placements import WHOLE, Split
from ..placement.slice_plan import SlicePlan
from .classes import classes_of
from .costs import HostCosts, weight_bytes
from .greedy import GreedySearch
from .needed_conversions import with_conversions
from .prediction import Prediction, predict
from .propagate import Candidates, propagate
from .solution import PlanSearch, Solution
from .stage_weights import is_vector, stage_weights

_SLACK = 1.02
"""The default target: the smallest shard that is possible, and two percent."""

_PRICES = (1e-3, 1e2, 1e4)
"""Prices of a stored byte between which the search goes on, and one more if none of them will do.

Their unit is the seconds of a request on one rank for each byte of the model.
"""


STEPS = 7
"""Steps of a choice: one for the candidates, and one for each price that is tried."""


@dataclass(frozen=True, slots=True)
class Choice:
    """A plan, its prediction, how far it may be from the best, and what was not understood."""

    plan: SlicePlan
    prediction: Prediction
    gap: float | None
    unknown: Sequence[str] = ()


def choose_plan(
    graph: SourceGraph,
    ranks: int,
    memory: int | None = None,
    costs: HostCosts | None = None,
    seconds: float = 30.0,
    fixed_by: FixedNodes = FREE,
    step: Callable[[], None] = lambda: None,
) -> Choice:
    """The plan with the least predicted time whose heaviest rank needs at most `memory` bytes.

    `memory` counts weights and activations. Without it, the target is the smallest shard that is
    possible, times 1.02, where vectors and activations do not count: to split the few bytes of a
    normalisation costs collectives. The search ends after `seconds`, and takes what it has found.
    The placements of `fixed_by` are kept. `step` is called after each of its steps, which are
    mostly `STEPS`.
    """
    deadline = time.monotonic() + seconds
    costs = costs or HostCosts()
    found = propagate(graph, ranks, fixed_by=fixed_by)
    step()
    if all(len(one) == 1 for one in found.strategies.values()):
        strategies = {name: one[0] for name, one in found.strategies.items()}
        return _priced(graph, found, Solution(strategies, None), ranks, costs)
    choice = _choose(graph, found, ranks, memory, costs, deadline, step)
    weights = choice.prediction.weights
    enough = memory is not None and max(choice.prediction.needed) <= memory
    if enough or max(weights) <= _SLACK * sum(weights) / ranks:
        return choice
    found = propagate(graph, ranks, _shares(graph, choice.plan, ranks), fixed_by)
    other = _choose(graph, found, ranks, memory, costs, deadline, step)
    return min((choice, other), key=lambda one: one.prediction.heaviest)


def _priced(
    graph: SourceGraph, found: Candidates, solution: Solution, ranks: int, costs: HostCosts
) -> Choice:
    """The choice that a solution makes."""
    plan = with_conversions(graph, solution.strategies, ranks)
    return Choice(plan, predict(graph, plan, costs), solution.gap, found.unknown)


def _choose(
    graph: SourceGraph,
    found: Candidates,
    ranks: int,
    memory: int | None,
    costs: HostCosts,
    deadline: float,
    step: Callable[[], None],
) -> Choice:
    search = _search(graph, found, costs)
    least = int(_SLACK * least_bytes(graph, found))

    def fits(one: Prediction) -> bool:
        if memory is not None:
            return max(one.needed) <= memory
        return max(one.matrices) <= least

    def at(price: float, turns: int = 4) -> Choice:
        share = max(deadline - time.monotonic(), 4.0) / turns
        try:
            solution = search.solve(price, time.monotonic() + share)
        except TimeoutError:
            solution = GreedySearch(graph, found, costs).solve(price, deadline)
        step()
        return _priced(graph, found, solution, ranks, costs)

    if memory is not None:
        fastest = at(0.0, turns=2)
        if fits(fastest.prediction):
            return fastest
    return _cheapest(at, fits, _prices(graph, found, costs), deadline)


def _search(graph: SourceGraph, found: Candidates, costs: HostCosts) -> PlanSearch:
    """The solver where it is installed, else the greedy search."""
    try:
        from .solve import SliceProgram
    except ImportError:
        return GreedySearch(graph, found, costs)
    return SliceProgram(graph, found, classes_of(graph, found), costs)


def _prices(graph: SourceGraph, found: Candidates, costs: HostCosts) -> Sequence[float]:
    """The prices of a stored byte to try, in seconds."""
    strategies = {name: some[0] for name, some in found.strategies.items()}  # the first is whole
    whole = predict(graph, SlicePlan(1, strategies), costs)
    unit = whole.seconds / max(whole.heaviest, 1)
    return [unit * price for price in _PRICES]


def _cheapest(
    at: Callable[[float], Choice],
    fits: Callable[[Prediction], bool],
    prices: Sequence[float],
    deadline: float,
) -> Choice:
    """The choice at the lowest price that fits the target; the smallest one where none does."""
    low, high, last = prices
    found = at(high)
    if not fits(found.prediction):
        return min((found, at(last)), key=lambda one: one.prediction.heaviest)
    while high / low > 2 and time.monotonic() < deadline:
        middle = (low * high) ** 0.5
        choice = at(middle)
        if fits(choice.prediction):
            found, high = choice, middle
        else:
            low = middle
    return found


def least_bytes(graph: SourceGraph, found: Candidates) -> int:
    """The bytes of the smallest shard, if each matrix could be stored as it is smallest.

    Vectors do not count.
    """
    least: dict[str, int] = {
        name: weight_bytes(value, WHOLE)
        for name, value in graph.weights.items()
        if not is_vector(value)
    }
    for name, strategies in found.strategies.items():
        node = found.nodes[name].node
        for strategy in strategies:
            for value, placement in zip(node.inputs, strategy.inputs, strict=True):
                if value is not None and value.is_initializer() and str(value.name) in least:
                    stored = weight_bytes(value, placement)
                    least[str(value.name)] = min(least[str(value.name)], stored)
    return sum(least.values())


def _shares(graph: SourceGraph, plan: SlicePlan, ranks: int) -> list[float]:
    """Shares of the axes without heads that make up for the heads' uneven weights."""
    uneven, free = [0.0] * ranks, 0.0
    (weights,) = stage_weights(graph, plan, stage_layout(graph, plan))
    for name, placement in weights:
        tensor = graph.weights[name].const_value
        assert tensor is not None
        if isinstance(placement, Split):
            parts = [placement.size(rank) / placement.length for rank in range(ranks)]
            if max(parts) - min(parts) > 2 / placement.length:
                uneven = [a + tensor.nbytes * b for a, b in zip(uneven, parts, strict=True)]
            else:
                free += tensor.nbytes
    aim = (sum(uneven) + free) / ranks
    return [max(aim - one, 0.02 * aim) for one in uneven]
