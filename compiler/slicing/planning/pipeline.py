"""Pipelines: the stages of a pipeline, so that the largest is small and little crosses.

Nodes keep their order, and a stage is a stretch of it. Nodes that depend on weights alone are
computed in every stage that needs them. So are nodes that depend on inputs and weights (masks,
positions), where that costs less than sending their results. A weight that several stages need is
stored in each of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
import onnx_ir as ir

from ....comm.errors import ModelError
from ....comm.text import counted
from ...source_graph.source_graph import SourceGraph
from ..emission.stage_layout import used_values
from ..placement.slice_plan import SlicePlan
from .costs import HostCosts
from .stage_costs import StageCosts
from .stage_cuts import Chain, best_cuts
from .stage_weights import StoredWeight

_MOST = 256
"""Nodes of the longest computation that stages repeat for one value."""

_SHARE = 0.25
"""The largest share of a stage that stages repeat for one value."""


def with_stages(
    graph: SourceGraph, plan: SlicePlan, stages: int, costs: HostCosts | None = None
) -> SlicePlan:
    """A plan of one stage as a pipeline of `stages` stages, each sliced as the plan says.

    ModelError where the graph cannot be cut into so many.
    """
    prices = StageCosts(graph, plan, costs or HostCosts())
    weights = {one: None for node in graph.nodes for one in prices.weights(node)}
    total = sum(map(prices.seconds, graph.nodes)) + sum(map(prices.stored, weights))
    repeated = RepeatedNodes(graph, prices, total / stages * _SHARE)
    nodes = [node for node in graph.nodes if str(node.name) not in repeated.closures]
    cuts = best_cuts(_chain(graph, nodes, repeated, prices), stages)
    if cuts is None:
        raise ModelError(
            f"The model cannot be cut into {counted(stages, 'stage')}: it has "
            f"{counted(len(nodes), 'node')} that stages can share out, and values that cannot be "
            "sent may lie between them. Plan fewer stages."
        )
    stage_of = {
        str(node.name): int(np.searchsorted(cuts, position, "right"))
        for position, node in enumerate(nodes)
    }
    return replace(plan, stages=stages, stage_of=stage_of, everywhere=frozenset(repeated.closures))


class RepeatedNodes:
    """The nodes that stages compute for themselves; `closures` has for each all that it takes."""

    def __init__(self, graph: SourceGraph, prices: StageCosts, limit: float) -> None:
        """Repeating all that one value needs may cost `limit`."""
        self._nodes = {str(node.name): node for node in graph.nodes}
        self._makers = {
            str(value.name): str(node.name) for node in graph.nodes for value in node.outputs
        }
        self._prices = prices
        self._limit = limit
        self._of_weights: set[str] = set()
        self.closures: dict[str, frozenset[str]] = {}
        inputs = {str(value.name) for value in graph.model.graph.inputs}
        for node in graph.nodes:
            self._judge(node, inputs)

    def taken_by(self, node: ir.Node) -> frozenset[str]:
        """The repeated nodes that a node takes values of, with all that those take."""
        makers = self._makers_of(node)
        return frozenset().union(*(self.closures.get(maker, ()) for maker in makers))

    def seconds(self, name: str) -> float:
        """The time of a repeated node; none for one of weights, which is computed once."""
        return 0.0 if name in self._of_weights else self._prices.seconds(self._nodes[name])

    def weights(self, names: frozenset[str]) -> set[StoredWeight]:
        """The weights that some repeated nodes take."""
        return {weight for name in names for weight in self._prices.weights(self._nodes[name])}

    def _judge(self, node: ir.Node, inputs: set[str]) -> None:
        """Note a node that stages compute for themselves: all that it takes, they do too."""
        makers, name = self._makers_of(node), str(node.name)
        if any(maker not in self.closures for maker in makers):
            return
        closure = self.taken_by(node) | {name}
        of_weights = all(maker in self._of_weights for maker in makers) and not any(
            str(value.name) in inputs for value in used_values(node)
        )
        if of_weights:
            self._of_weights.add(name)
        elif len(closure) > _MOST or self._price(closure) > min(self._limit, self._sent(node)):
            return
        self.closures[name] = closure

    def _makers_of(self, node: ir.Node) -> set[str]:
        taken = (str(value.name) for value in used_values(node))
        return {self._makers[name] for name in taken if name in self._makers}

    def _price(self, closure: frozenset[str]) -> float:
        stored = sum(map(self._prices.stored, self.weights(closure)))
        return stored + sum(
            self._prices.seconds(self._nodes[name]) for name in closure - self._of_weights
        )

    def _sent(self, node: ir.Node) -> float:
        """The time that two stages spend where one sends the other a node's outputs."""
        return 2 * sum(map(self._prices.sent, node.outputs))


def _chain(
    graph: SourceGraph, nodes: Sequence[ir.Node], repeated: RepeatedNodes, prices: StageCosts
) -> Chain:
    """The nodes that stages share out, as a chain to cut."""
    numbers: dict[str | StoredWeight, int] = {}
    costs: list[float] = []
    uses = []
    for position, node in enumerate(nodes):
        for one in _resources(node, repeated, prices):
            if one not in numbers:
                numbers[one] = len(costs)
                costs.append(repeated.seconds(one) if isinstance(one, str) else prices.stored(one))
            uses.append((position, numbers[one]))
    return Chain(
        [prices.seconds(node) for node in nodes], uses, costs, _crossing(graph, nodes, prices)
    )


def _resources(
    node: ir.Node, repeated: RepeatedNodes, prices: StageCosts
) -> Iterator[str | StoredWeight]:
    """The needs of a node that its stage has once: weights, and by name nodes that it repeats."""
    closure = repeated.taken_by(node)
    yield from prices.weights(node)
    yield from repeated.weights(closure)
    yield from closure


def _crossing(graph: SourceGraph, nodes: Sequence[ir.Node], prices: StageCosts) -> list[float]:
    """For each number of nodes, the time of sending all that crosses a cut behind so many."""
    last: dict[str, int] = {}
    for position, node in enumerate(nodes):
        last.update((str(value.name), position) for value in used_values(node))
    last.update((str(value.name), len(nodes)) for value in graph.model.graph.outputs)
    crossing = [0.0] * (len(nodes) + 1)
    for position, node in enumerate(nodes):
        for value in node.outputs:
            for cut in range(position + 1, last.get(str(value.name), position) + 1):
                crossing[cut] += prices.sent(value)
    return [0.0, *crossing[1:-1], 0.0] if nodes else [0.0]
