"""Random plans: strategies drawn by lot, by which rules and conversions are tried together."""

from __future__ import annotations

import random
from collections.abc import Mapping

from ...source_graph.source_graph import SourceGraph
from ..emission.conversions import convertible
from ..placement.operator_node import OperatorNode, Strategy
from ..placement.placements import WHOLE, Placement
from ..placement.slice_plan import SlicePlan
from .needed_conversions import with_conversions
from .propagate import Candidates


def random_plan(graph: SourceGraph, found: Candidates, ranks: int, seed: int) -> SlicePlan:
    """A plan that takes a random strategy for each node, of those that its inputs can reach."""
    draw = random.Random(seed)  # nosec B311  # plans to try, no secrets
    strategies: dict[str, Strategy] = {}
    produced: dict[str, Placement] = {}
    for node in graph.nodes:
        name = str(node.name)
        able = [one for one in found.strategies[name] if _reached(found.nodes[name], one, produced)]
        chosen = draw.choice(able)
        strategies[name] = chosen
        for value, placement in zip(node.outputs, chosen.outputs, strict=True):
            produced[str(value.name)] = placement
    return with_conversions(graph, strategies, ranks)


def _reached(node: OperatorNode, strategy: Strategy, produced: Mapping[str, Placement]) -> bool:
    """Whether each input is in the placement that a strategy needs, or can be converted to it."""
    for value, needed in zip(node.node.inputs, strategy.inputs, strict=True):
        if value is None or value.is_initializer():
            continue
        before = produced.get(str(value.name), WHOLE)
        if before != needed and not convertible(before, needed):
            return False
    return True
