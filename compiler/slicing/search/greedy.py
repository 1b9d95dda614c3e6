"""Greedy search: chooses strategies in the order of the nodes, where HiGHS is not installed.

Each node takes the strategy that is cheapest with what its inputs offer by then. From a whole
input, a projection is cheapest by columns, and the next one by rows: Megatron's form.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

import onnx_ir as ir

from ....comm.errors import ModelError
from ...source_graph.source_graph import SourceGraph
from ..emission.conversions import convertible
from ..placement.operator_node import OperatorNode, Strategy
from ..placement.placements import WHOLE, Placement, Split, Windows
from ..planning.costs import (
    HostCosts,
    conversion_seconds,
    costs_of,
    itemsize,
    node_seconds,
    weight_bytes,
)
from ..planning.propagate import Candidates
from .solution import Solution


class GreedySearch:
    """The search of one graph, for several prices of a stored byte."""

    def __init__(self, graph: SourceGraph, found: Candidates, costs: HostCosts) -> None:
        self._graph = graph
        self._found = found
        self._costs = costs_of(graph, costs)

    def solve(self, price: float) -> Solution:
        """The strategies where a stored byte costs `price` seconds."""
        offered: dict[str, dict[Placement, None]] = defaultdict(dict)
        for value in self._graph.model.graph.inputs:
            offered[str(value.name)][WHOLE] = None
        chosen: dict[str, Strategy] = {}
        for name, node in self._found.nodes.items():
            priced = self._priced(node, offered, price)
            if not priced:
                raise ModelError(
                    f"node {name}: its annotation cannot be had from what comes before it: "
                    "annotate the nodes before it as well."
                )
            chosen[name] = self._found.strategies[name][min(priced)[1]]
            self._offer(node, chosen[name], offered)
        return Solution(chosen)

    def _priced(
        self, node: OperatorNode, offered: dict[str, dict[Placement, None]], price: float
    ) -> list[tuple[float, int]]:
        """The possible strategies of a node, each with its cost."""
        strategies = self._found.strategies[str(node.node.name)]
        costs = [self._cost(node, one, offered, price) for one in strategies]
        if len(strategies) == 1 and costs == [None]:  # prescribed: any conversion will do
            costs = [self._cost(node, strategies[0], offered, price, True)]
        return [(cost, index) for index, cost in enumerate(costs) if cost is not None]

    def _cost(
        self,
        node: OperatorNode,
        strategy: Strategy,
        offered: dict[str, dict[Placement, None]],
        price: float,
        splits: bool = False,
    ) -> float | None:
        """The seconds of a strategy, its conversions and its weights; None if it cannot be."""
        total = node_seconds(node, strategy, self._costs)
        for value, needed in zip(node.node.inputs, strategy.inputs, strict=True):
            if value is None or needed in offered[str(value.name)]:
                continue
            if value.is_initializer():
                total += price * weight_bytes(value, needed)
                continue
            found = list(self._conversions(value, needed, offered, splits))
            if not found:
                return None
            total += found[0]
        return total

    def _conversions(
        self,
        value: ir.Value,
        needed: Placement,
        offered: dict[str, dict[Placement, None]],
        splits: bool,
    ) -> Iterator[float]:
        """The seconds of the conversion from the placement in which a value was computed.

        Without `splits`, values are never split by a conversion, only by weights: else the search
        strays, and pays for each step to another axis.
        """
        name = str(value.name)
        before = next(iter(offered[name]), WHOLE)
        if convertible(before, needed) and (splits or not isinstance(needed, Split | Windows)):
            size = itemsize(value, before, needed)
            yield conversion_seconds(self._graph.dims[name], size, before, needed, self._costs)

    def _offer(
        self, node: OperatorNode, strategy: Strategy, offered: dict[str, dict[Placement, None]]
    ) -> None:
        """Note the placements that a node leaves behind; the first one is as it was computed."""
        for value, needed in zip(node.node.inputs, strategy.inputs, strict=True):
            if value is not None:
                offered[str(value.name)].setdefault(needed)
        for value, placement in zip(node.node.outputs, strategy.outputs, strict=True):
            if value.name:
                offered[value.name] = {placement: None}
