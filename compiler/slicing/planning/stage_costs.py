"""Stage costs: predict the seconds of nodes, weights and messages of a plan."""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import cached_property

import onnx_ir as ir

from ...source_graph.source_graph import SourceGraph
from ..emission.stage_layout import crossing_placements, sendable
from ..placement.operator_node import operator_nodes
from ..placement.placements import Placement
from ..placement.slice_plan import SlicePlan
from .costs import HostCosts, node_seconds, weight_bytes
from .stage_weights import StoredWeight, taken_weights
from .traffic import message


class StageCosts:
    """The costs of one graph's nodes, weights and values on each rank, as a plan slices them."""

    def __init__(self, graph: SourceGraph, plan: SlicePlan, costs: HostCosts) -> None:
        self._graph = graph
        self._plan = plan
        self._costs = costs
        self._nodes = operator_nodes(graph, plan.ranks)

    def weights(self, node: ir.Node) -> list[StoredWeight]:
        """The weights that a node takes."""
        return list(taken_weights(self._graph, self._plan, node))

    def seconds(self, node: ir.Node) -> float:
        """The time of a node."""
        found = self._nodes[str(node.name)]
        strategy = self._plan.strategies.get(str(node.name), found.whole)
        return node_seconds(found, strategy, self._costs)

    def stored(self, weight: StoredWeight) -> float:
        """The price of keeping a weight in a stage: the time to read it once."""
        name, placement = weight
        return weight_bytes(self._graph.weights[name], placement) * self._costs.byte

    def sent(self, value: ir.Value) -> float:
        """The time in which a stage sends a value, or receives it; inf where it cannot be sent."""
        name = str(value.name)
        if not sendable(self._graph, value):
            return math.inf
        dims = self._graph.dims[name]
        return message("Send", value, dims, self._crossing[name], self._costs).seconds

    @cached_property
    def _crossing(self) -> Mapping[str, Placement]:
        return crossing_placements(self._graph, self._plan)
