"""Choice of a plan: strategies that fit the memory, and the conversions between them.

The solver finds the plan with the least predicted time that fits. Where it is not installed, or
its time was too short, a greedy search does.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from ...source_graph.source_graph import SourceGraph
from ..annotation.fixed_nodes import FREE, FixedNodes
from ..emission.stage_layout import stage_layout
from ..placement.placements import WHOLE, Split, Windows
from ..placement.slice_plan import SlicePlan
from ..planning.costs import HostCosts, weight_bytes
from ..planning.propagate import propagate
from ..planning.stage_weights import stage_weights
from .choice_task import Choice, ChoiceTask
from .price_search import cheapest
from .solution import Solution
from .solver_package import why_no_solver
from .uneven_heads import is_uneven, weight_splits

if TYPE_CHECKING:
    from .limit_search import LimitSearch

STEPS = 3
"""Steps of a choice: for the candidates, the solver's program, and its solution."""

_WIDE = 0.02
"""The gap above which a greedy plan may well be better than what the solver has found."""

_ROOMS = 1.3, 1.1
"""How much larger than the smallest one the shards of a draft may be, which tells uneven parts."""

_EVENED = 1.0, 1.08
"""How much more than 1/N a rank may hold for which others make up; plans may have ten percent."""

_DIFFERENT = 1.05
"""How much larger than the smallest share the largest one has to be: others are nearly even."""


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
    normalisation costs collectives. Where the ranks do not divide the heads, it is 1.10. The search
    ends after `seconds`, and takes what it has found. The placements of `fixed_by` are kept. `step`
    is called after each of its steps, which are mostly `STEPS`.
    """
    deadline = time.monotonic() + seconds
    found = propagate(graph, ranks, fixed_by=fixed_by)
    step()
    task = ChoiceTask(graph, found, ranks, memory, costs or HostCosts(), deadline, step, fixed_by)
    if all(len(one) == 1 for one in found.strategies.values()):
        strategies = {name: one[0] for name, one in found.strategies.items()}
        return task.priced(Solution(strategies))
    return _fastest(task)


def _fastest(task: ChoiceTask) -> Choice:
    """The plan with the least predicted time that fits."""
    search = _search(task)
    shares = _shares(task, search)
    if shares:
        found = propagate(task.graph, task.ranks, shares, task.fixed_by)
        task = replace(task, found=found)
        search = _search(task)
    solved = _solved(search)
    if solved is None:
        return cheapest(task)
    if solved.gap is None or solved.gap <= _WIDE:
        return solved
    return _better(task, solved, cheapest(task))


def _search(task: ChoiceTask) -> LimitSearch | None:
    """The solver's search; None where it is not installed."""
    if why_no_solver():
        return None
    from .limit_search import LimitSearch

    return LimitSearch(task)


def _solved(search: LimitSearch | None) -> Choice | None:
    """The solver's choice; None where it has found none in its time."""
    try:
        return search.choice() if search is not None else None
    except TimeoutError:
        return None


def _better(task: ChoiceTask, solved: Choice, greedy: Choice) -> Choice:
    """The faster one of two choices, or the one that fits the memory."""
    first, second = solved.prediction, greedy.prediction
    assert solved.gap is not None
    if not task.fits(second) or task.fits(first) and first.seconds <= second.seconds:
        return solved
    least = (1 - solved.gap) * first.seconds  # no plan is faster
    return replace(greedy, gap=max(0.0, 1 - least / second.seconds))


def _shares(task: ChoiceTask, search: LimitSearch | None) -> list[list[float]]:
    """Shares of the axes without heads that make up for the heads' uneven weights.

    An empty list where plans with some more memory have no such weights. The shares are the same
    whatever the memory is.
    """
    if not any(map(is_uneven, weight_splits(task.found))):
        return []
    for draft in _drafts(task, search):
        some = [_missing(task, draft.plan, evened) for evened in _EVENED]
        found = [one for one in some if one and max(one) > _DIFFERENT * min(one)]
        if found:
            return found
    return []


def _drafts(task: ChoiceTask, search: LimitSearch | None) -> Iterator[Choice]:
    """Fast choices with some more memory."""
    if search is None:
        yield cheapest(replace(task, memory=None))
        return
    for room in _ROOMS:
        draft = search.draft(room)
        if draft is not None:
            yield draft


def _missing(task: ChoiceTask, plan: SlicePlan, evened: float) -> list[float]:
    """The bytes of other weights that each rank should get where some have uneven parts.

    A rank whose uneven parts are too many gets few others: no fewer than it has to, as all ranks
    wait for the one that gets most.
    """
    uneven, free = [0.0] * task.ranks, 0.0
    (weights,) = stage_weights(task.graph, plan, stage_layout(task.graph, plan))
    for name, placement in weights:
        nbytes = weight_bytes(task.graph.weights[name], WHOLE)
        if isinstance(placement, Windows) or isinstance(placement, Split) and is_uneven(placement):
            largest = weight_bytes(task.graph.weights[name], placement) / nbytes
            sizes = [placement.size(rank) for rank in range(task.ranks)]
            parts = [largest * size / placement.largest for size in sizes]
            uneven = [one + nbytes * part for one, part in zip(uneven, parts, strict=True)]
        elif isinstance(placement, Split):
            free += nbytes
    mean = (sum(uneven) + free) / task.ranks
    room = [max(evened * mean - one, 0.02 * mean) for one in uneven]
    return _evenly(free, room) if any(uneven) else []


def _evenly(total: float, room: Sequence[float]) -> list[float]:
    """Parts of `total`, as even as the room for each allows."""
    level = total / len(room)
    for full, most in enumerate(sorted(room)):
        level = total / (len(room) - full)
        if most >= level:
            break
        total -= most
    return [min(one, level) for one in room]
