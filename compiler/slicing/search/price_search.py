"""Price search: greedy plans at several prices of a stored byte, and the fastest that fits.

The prices do not depend on the memory that the ranks have, so that every limit has the same plans
to choose from, and none is worse than what another limit would give.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from ..placement.operator_node import Strategy
from .choice_task import SLACK, Choice, ChoiceTask
from .front import Front
from .greedy import GreedySearch

_STEP = 4.0
"""How much dearer than the last price the next one is."""


def cheapest(task: ChoiceTask) -> Choice:
    """The fastest of the greedy choices that fit; the smallest one where none does."""
    front = _evaluated(task)
    if task.memory is not None:
        return front.fastest(task.fits) or front.smallest(lambda one: max(one.needed))
    least = front.smallest(lambda one: max(one.matrices))
    most = max(*task.targets(), int(SLACK * max(least.prediction.matrices)))
    return front.fastest_of(most) or least


def _evaluated(task: ChoiceTask) -> Front:
    """The choices at all prices; what two prices give is evaluated once."""
    search, front = GreedySearch(task.graph, task.found, task.costs), Front()
    last: Mapping[str, Strategy] | None = None
    for price in _ladder(task):
        solution = search.solve(price)
        if solution.strategies != last:
            front.add(replace(task.priced(solution), search="greedy"))
        last = solution.strategies
        task.step()
    return front


def _ladder(task: ChoiceTask) -> list[float]:
    """Prices from none to the highest."""
    low, high, last = task.prices()
    prices = [0.0]
    while low < high:
        prices.append(low)
        low *= _STEP
    return [*prices, high, last]
