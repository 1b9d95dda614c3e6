"""Needed conversions: list what the strategies of a plan need that is computed in another way."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from ...source_graph.source_graph import SourceGraph
from ..placement.operator_node import Strategy
from ..placement.placements import WHOLE, Placement
from ..placement.slice_plan import Conversion, SlicePlan, produced_placements


def with_conversions(
    graph: SourceGraph, strategies: Mapping[str, Strategy], ranks: int
) -> SlicePlan:
    """A plan with all conversions that its strategies need."""
    draft = SlicePlan(ranks, strategies)
    return replace(draft, conversions=tuple(one for one, _ in needed_conversions(graph, draft)))


def needed_conversions(graph: SourceGraph, plan: SlicePlan) -> Iterator[tuple[Conversion, str]]:
    """Every conversion that the strategies of a plan need, and the first node that needs it."""
    produced = produced_placements(graph, plan)
    seen: set[Conversion] = set()
    for name, needed, place in _needs(graph, plan):
        one = Conversion(name, produced.get(name, WHOLE), needed)
        if one.before != one.after and one not in seen:
            seen.add(one)
            yield one, place


def _needs(graph: SourceGraph, plan: SlicePlan) -> Iterator[tuple[str, Placement, str]]:
    """Each value that is taken and no weight, its placement there, and what takes it."""
    for node in graph.nodes:
        name = str(node.name)
        for index, value in enumerate(node.inputs):
            if value is not None and not value.is_initializer():
                yield str(value.name), plan.needed(name, index), f"node {name}"
    for value in graph.given:
        yield str(value.name), WHOLE, f"output {value.name}"
