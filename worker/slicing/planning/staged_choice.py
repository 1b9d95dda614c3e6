"""Staged choice: strategies for the ranks of a stage, and cuts with which all ranks have room."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

from ..annotation.fixed_nodes import FREE, FixedNodes
from ..emission.stage_layout import stage_layout
from ..graph.source_graph import SourceGraph
from ..placement.slice_plan import SlicePlan
from .activations import stage_activations
from .choose import choose_plan
from .costs import HostCosts
from .pipeline import with_stages
from .stage_weights import rank_bytes

_BY_WEIGHT = HostCosts(latency=0.0, exchanged_byte=1e-3, flop=0.0, byte=1.0, call=0.0)
"""Costs with which stages have equally many bytes, whatever they compute."""

_ROUNDS = 3


@dataclass(frozen=True, slots=True)
class StagedChoice:
    """A plan, the bytes that each rank needs, how far it may be from the best, unknown operators.

    A rank needs its weights, and the values of a request at the worst moment of its stage.
    """

    plan: SlicePlan
    needed: Sequence[int]
    gap: float | None
    unknown: Sequence[str]


def choose_staged(
    graph: SourceGraph,
    ranks: int,
    stages: int,
    memory: int | None,
    seconds: float,
    costs: HostCosts | None = None,
    fixed_by: FixedNodes = FREE,
) -> StagedChoice:
    """The plan for `stages` stages of `ranks` ranks each, in which a rank needs at most `memory`.

    Where none is found, the last one that was tried. The search takes about `seconds`. The
    placements and stages of `fixed_by` are kept.
    """
    share = memory * stages if memory is not None else None  # stages share the weights
    deadline = time.monotonic() + seconds
    for _ in range(_ROUNDS):
        left = max(deadline - time.monotonic(), seconds / _ROUNDS)
        choice = choose_plan(graph, ranks, share, costs, left, fixed_by)
        found = min(
            (
                StagedChoice(plan, bytes_of_ranks(graph, plan), choice.gap, choice.unknown)
                for plan in _staged(graph, choice.plan, stages, memory, costs, fixed_by)
            ),
            key=lambda one: max(one.needed),
        )
        if memory is None or share is None or stages == 1 or max(found.needed) <= memory:
            return found
        share = int(share * memory / max(found.needed) * 0.98)
    return found


def _staged(
    graph: SourceGraph,
    plan: SlicePlan,
    stages: int,
    memory: int | None,
    costs: HostCosts | None,
    fixed_by: FixedNodes,
) -> Sequence[SlicePlan]:
    """The plan with the prescribed stages, else with stages of equal time; of equal weights too,
    where these need too much.
    """
    if stages == 1:
        return [plan]
    if fixed_by.stage_of:
        stage_of, everywhere = fixed_by.stage_of, fixed_by.everywhere
        return [replace(plan, stages=stages, stage_of=stage_of, everywhere=everywhere)]
    found = with_stages(graph, plan, stages, costs)
    if memory is None or max(bytes_of_ranks(graph, found)) <= memory:
        return [found]
    return [found, with_stages(graph, plan, stages, _BY_WEIGHT)]


def bytes_of_ranks(graph: SourceGraph, plan: SlicePlan) -> list[int]:
    """The bytes of weights and of activations of each rank."""
    layout = stage_layout(graph, plan)
    activations = stage_activations(graph, plan, layout)
    weights = rank_bytes(graph, plan, layout)
    return [one + activations[rank // plan.ranks] for rank, one in enumerate(weights)]
