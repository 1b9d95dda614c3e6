"""Choice of a plan: strategies that fit the memory, and the conversions between them.

The price of a stored byte is searched: the lowest price whose plan fits the target is the plan
with the least predicted time that does.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import onnx_ir as ir

from ..annotation.fixed_nodes import FREE, FixedNodes
from ..emission.conversions import convertible
from ..graph.source_graph import SourceGraph
from ..placement.operator_node import Strategy
from ..placement.placements import WHOLE, Placement, Split
from ..placement.slice_plan import Conversion, SlicePlan
from .activations import peak_activations
from .classes import classes_of
from .costs import HostCosts, conversion_seconds, itemsize, node_seconds, weight_bytes
from .greedy import GreedySearch
from .propagate import Candidates, propagate
from .solution import PlanSearch

_SLACK = 1.02
"""The default target: the smallest shard that is possible, and two percent."""

_PRICES = (1e-3, 1e2, 1e4)
"""Prices of a stored byte between which the search goes on, and one more if none of them will do.

Their unit is the seconds of a request on one rank for each byte of the model.
"""


@dataclass(frozen=True, slots=True)
class Prediction:
    """The costs of a plan: seconds of a request, bytes of weights of each rank, and of a request's
    values at the worst moment.

    `matrices` has the bytes of each rank's weights without vectors.
    """

    seconds: float
    weights: tuple[int, ...]
    activations: int
    matrices: tuple[int, ...] = (0,)

    @property
    def heaviest(self) -> int:
        """The bytes of weights of the rank that holds most."""
        return max(self.weights)

    @property
    def needed(self) -> int:
        """The bytes of weights and activations of the rank that holds most."""
        return self.heaviest + self.activations


@dataclass(frozen=True, slots=True)
class Choice:
    """A plan, its prediction, how far it may be from the best, and what was not understood."""

    plan: SlicePlan
    prediction: Prediction
    gap: float | None
    unknown: Sequence[str] = ()


def choose_plan(
    graph: SourceGraph,
    ranks: int,
    memory: int | None = None,
    costs: HostCosts | None = None,
    seconds: float = 30.0,
    fixed_by: FixedNodes = FREE,
) -> Choice:
    """The plan with the least predicted time whose heaviest rank needs at most `memory` bytes.

    `memory` counts weights and activations. Without it, the target is the smallest shard that is
    possible, times 1.02, where vectors and activations do not count: to split the few bytes of a
    normalisation costs collectives. The search ends after `seconds`, and takes what it has found.
    The placements of `fixed_by` are kept.
    """
    deadline = time.monotonic() + seconds
    costs = costs or HostCosts()
    found = propagate(graph, ranks, fixed_by=fixed_by)
    if all(len(one) == 1 for one in found.strategies.values()):
        return _only(graph, found, ranks, costs)
    choice = _choose(graph, found, ranks, memory, costs, deadline)
    weights = choice.prediction.weights
    enough = memory is not None and choice.prediction.needed <= memory
    if enough or max(weights) <= _SLACK * sum(weights) / ranks:
        return choice
    found = propagate(graph, ranks, _shares(graph, choice.plan, ranks), fixed_by)
    other = _choose(graph, found, ranks, memory, costs, deadline)
    return min((choice, other), key=lambda one: one.prediction.heaviest)


def _only(graph: SourceGraph, found: Candidates, ranks: int, costs: HostCosts) -> Choice:
    """The choice where each node has one strategy."""
    strategies = {name: one[0] for name, one in found.strategies.items()}
    plan = with_conversions(graph, strategies, ranks)
    return Choice(plan, predict(graph, found, plan, costs), None, found.unknown)


def _choose(
    graph: SourceGraph,
    found: Candidates,
    ranks: int,
    memory: int | None,
    costs: HostCosts,
    deadline: float,
) -> Choice:
    search = _search(graph, found, costs)
    least = int(_SLACK * least_bytes(graph, found))

    def fits(one: Prediction) -> bool:
        if memory is not None:
            return one.needed <= memory
        return max(one.matrices) <= least

    def at(price: float, turns: int = 4) -> Choice:
        share = max(deadline - time.monotonic(), 4.0) / turns
        try:
            solution = search.solve(price, time.monotonic() + share)
        except TimeoutError:
            solution = GreedySearch(graph, found, costs).solve(price, deadline)
        plan = with_conversions(graph, solution.strategies, ranks)
        return Choice(plan, predict(graph, found, plan, costs), solution.gap, found.unknown)

    if memory is not None:
        fastest = at(0.0, turns=2)
        if fits(fastest.prediction):
            return fastest
    return _cheapest(at, fits, _prices(graph, found, costs), deadline)


def _search(graph: SourceGraph, found: Candidates, costs: HostCosts) -> PlanSearch:
    """The solver where it is installed, else the greedy search."""
    try:
        from .solve import SliceProgram
    except ImportError:
        return GreedySearch(graph, found, costs)
    return SliceProgram(graph, found, classes_of(graph, found), costs)


def _prices(graph: SourceGraph, found: Candidates, costs: HostCosts) -> Sequence[float]:
    """The prices of a stored byte to try, in seconds."""
    strategies = {name: some[0] for name, some in found.strategies.items()}  # the first is whole
    whole = predict(graph, found, SlicePlan(1, strategies), costs)
    unit = whole.seconds / max(whole.heaviest, 1)
    return [unit * price for price in _PRICES]


def _cheapest(
    at: Callable[[float], Choice],
    fits: Callable[[Prediction], bool],
    prices: Sequence[float],
    deadline: float,
) -> Choice:
    """The choice at the lowest price that fits the target; the smallest one where none does."""
    low, high, last = prices
    found = at(high)
    if not fits(found.prediction):
        return min((found, at(last)), key=lambda one: one.prediction.heaviest)
    while high / low > 2 and time.monotonic() < deadline:
        middle = (low * high) ** 0.5
        choice = at(middle)
        if fits(choice.prediction):
            found, high = choice, middle
        else:
            low = middle
    return found


def least_bytes(graph: SourceGraph, found: Candidates) -> int:
    """The bytes of the smallest shard, if each matrix could be stored as it is smallest.

    Vectors do not count.
    """
    least: dict[str, int] = {
        name: weight_bytes(value, WHOLE)
        for name, value in graph.weights.items()
        if not _is_vector(value)
    }
    for name, strategies in found.strategies.items():
        node = found.nodes[name].node
        for strategy in strategies:
            for value, placement in zip(node.inputs, strategy.inputs, strict=True):
                if value is not None and value.is_initializer() and str(value.name) in least:
                    stored = weight_bytes(value, placement)
                    least[str(value.name)] = min(least[str(value.name)], stored)
    return sum(least.values())


def _is_vector(value: ir.Value) -> bool:
    """Whether at most one axis of a value has more than one element."""
    return sum(size != 1 for size in value.shape or ()) < 2


def with_conversions(
    graph: SourceGraph, strategies: Mapping[str, Strategy], ranks: int
) -> SlicePlan:
    """A plan with all conversions that its strategies need."""
    draft = SlicePlan(ranks, strategies)
    produced: dict[str, Placement] = {str(value.name): WHOLE for value in graph.model.graph.inputs}
    needed: dict[Conversion, None] = {}
    for node in graph.nodes:
        name = str(node.name)
        for index, value in enumerate(node.inputs):
            if value is not None and not value.is_initializer():
                _note(needed, str(value.name), produced, draft.needed(name, index))
        for index, value in enumerate(node.outputs):
            produced[str(value.name)] = draft.produced(name, index)
    for value in graph.model.graph.outputs:
        _note(needed, str(value.name), produced, WHOLE)
    return SlicePlan(ranks, strategies, tuple(needed))


def _note(
    needed: dict[Conversion, None],
    value: str,
    produced: Mapping[str, Placement],
    after: Placement,
) -> None:
    before = produced.get(value, WHOLE)
    if before != after:
        assert convertible(before, after), f"{value}: {before} to {after}"
        needed[Conversion(value, before, after)] = None


def stored_placements(graph: SourceGraph, plan: SlicePlan) -> dict[str, list[Placement]]:
    """The placements in which each weight is stored, by name."""
    found: dict[str, dict[Placement, None]] = {}
    for node in graph.nodes:
        for index, value in enumerate(node.inputs):
            if value is not None and value.is_initializer():
                placement = plan.needed(str(node.name), index)
                found.setdefault(str(value.name), {})[placement] = None
    for name, weight in graph.weights.items():
        if name not in found and weight.uses():  # by bodies, which have all weights whole
            found[name] = {WHOLE: None}
    return {name: list(placements) for name, placements in found.items()}


def predict(graph: SourceGraph, found: Candidates, plan: SlicePlan, costs: HostCosts) -> Prediction:
    """The costs of a plan: its nodes, its conversions, and the weights of each rank."""
    times = [
        node_seconds(found.nodes[name], strategy, costs)
        for name, strategy in plan.strategies.items()
    ]
    values = {str(value.name): value for node in graph.nodes for value in node.outputs}
    for one in plan.conversions:
        size = itemsize(values.get(one.value))
        dims = graph.dims[one.value]
        times.append(conversion_seconds(dims, size, one.before, one.after, costs))
    weights, matrices = rank_weights(graph, plan), rank_weights(graph, plan, vectors=False)
    return Prediction(sum(times), weights, peak_activations(graph, plan), matrices)


def rank_weights(graph: SourceGraph, plan: SlicePlan, vectors: bool = True) -> tuple[int, ...]:
    """The bytes of weights that each rank of a stage stores, with or without vectors."""
    totals = [0] * plan.ranks
    for name, placements in stored_placements(graph, plan).items():
        tensor = graph.weights[name].const_value
        assert tensor is not None
        if not vectors and _is_vector(graph.weights[name]):
            continue
        for placement in placements:
            for rank in range(plan.ranks):
                totals[rank] += round(tensor.nbytes * _part(placement, rank))
    return tuple(totals)


def _part(placement: Placement, rank: int) -> float:
    """The part of a value that a rank holds, 0 to 1."""
    if isinstance(placement, Split):
        return placement.size(rank) / placement.length
    return 1.0


def _shares(graph: SourceGraph, plan: SlicePlan, ranks: int) -> list[float]:
    """Shares of the axes without heads that make up for the heads' uneven weights."""
    uneven, free = [0.0] * ranks, 0.0
    for name, placements in stored_placements(graph, plan).items():
        tensor = graph.weights[name].const_value
        assert tensor is not None
        for placement in placements:
            if not isinstance(placement, Split):
                continue
            parts = [_part(placement, rank) for rank in range(ranks)]
            if max(parts) - min(parts) > 2 / placement.length:
                uneven = [a + tensor.nbytes * b for a, b in zip(uneven, parts, strict=True)]
            else:
                free += tensor.nbytes
    aim = (sum(uneven) + free) / ranks
    return [max(aim - one, 0.02 * aim) for one in uneven]
