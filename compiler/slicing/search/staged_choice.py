"""Staged choice: strategies for the ranks of a stage, and cuts with which all ranks have room."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import replace

from ...source_graph.source_graph import SourceGraph
from ..annotation.fixed_nodes import FREE, FixedNodes
from ..placement.slice_plan import SlicePlan
from ..planning.costs import HostCosts
from ..planning.pipeline import with_stages
from ..planning.prediction import predict
from .choice_task import Choice
from .choose import choose_plan
from .front import Front

_BY_WEIGHT = HostCosts(
    latency=0.0, exchanged_byte=1e-3, flop=0.0, convolved_flop=0.0, byte=1.0, call=0.0
)
"""Costs with which stages have equally many bytes, whatever they compute."""

_ROUNDS = 3


def choose_staged(
    graph: SourceGraph,
    ranks: int,
    stages: int,
    memory: int | None,
    seconds: float,
    costs: HostCosts | None = None,
    fixed_by: FixedNodes = FREE,
    step: Callable[[], None] = lambda: None,
) -> Choice:
    """The plan for `stages` stages of `ranks` ranks each, in which a rank needs at most `memory`.

    Where none is found, the one that needs least. The search takes about `seconds`. The
    placements and stages of `fixed_by` are kept. `step` is as for choose_plan.
    """
    costs = costs or HostCosts()
    share = memory * stages if memory is not None else None  # stages share the weights
    deadline = time.monotonic() + seconds
    front = Front()
    for _ in range(_ROUNDS):
        left = max(deadline - time.monotonic(), seconds / _ROUNDS)
        choice = choose_plan(graph, ranks, share, costs, left, fixed_by, step)
        if stages == 1:
            return choice
        for one in _staged(graph, choice, stages, memory, costs, fixed_by):
            front.add(one)
        found = front.fastest(lambda one: memory is None or max(one.needed) <= memory)
        if found is not None or memory is None or share is None:
            break
        smallest = front.smallest(lambda one: max(one.needed))
        share = int(share * memory / max(smallest.prediction.needed) * 0.98)
    return found or front.smallest(lambda one: max(one.needed))


def _staged(
    graph: SourceGraph,
    choice: Choice,
    stages: int,
    memory: int | None,
    costs: HostCosts,
    fixed_by: FixedNodes,
) -> Iterator[Choice]:
    """The plan with the prescribed stages, else with stages of equal time; of equal weights too,
    where these need too much.
    """
    plan = choice.plan
    if fixed_by.stage_of:
        stage_of, everywhere = fixed_by.stage_of, fixed_by.everywhere
        plan = replace(plan, stages=stages, stage_of=stage_of, everywhere=everywhere)
        yield _priced(graph, choice, plan, costs)
        return
    found = _priced(graph, choice, with_stages(graph, plan, stages, costs), costs)
    yield found
    if memory is not None and max(found.prediction.needed) > memory:
        yield _priced(graph, choice, with_stages(graph, plan, stages, _BY_WEIGHT), costs)


def _priced(graph: SourceGraph, choice: Choice, plan: SlicePlan, costs: HostCosts) -> Choice:
    return replace(choice, plan=plan, prediction=predict(graph, plan, costs))
