"""Stage costs: predict the seconds of nodes, weights and messages in the stages of a pipeline."""

from __future__ import annotations

import math

import onnx_ir as ir

from ..emission.stage_layout import sendable
from ..graph.dims import fixed, usual
from ..graph.source_graph import SourceGraph
from ..placement.operator_node import operator_nodes
from ..placement.slice_plan import SlicePlan
from .costs import HostCosts, itemsize, node_seconds, weight_bytes
from .stage_weights import StoredWeight, taken_weights


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
        dims = self._graph.dims.get(str(value.name))
        if dims is None or not sendable(self._graph, value):
            return math.inf
        messages = 1 if all(fixed(dim) is not None for dim in dims) else 2
        size = math.prod(usual(dims)) * itemsize(value)
        return messages * self._costs.latency + size * self._costs.exchanged_byte
