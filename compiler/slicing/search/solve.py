"""Solver: chooses a strategy for each class of nodes by a mixed-integer program.

A variable says whether a class of nodes takes a strategy. A class of values flows from the
placement that its producer computes to the one that each consumer needs. Where these differ, the
flow needs a conversion, which costs time. Consumers share conversions: a value is converted once,
not for each of them. A weight is stored in the placements that are needed, and each byte stored has
a price, so that a dearer byte makes a smaller shard.

The flows make the program easy: nearly always the best solution has whole numbers, even where
variables may be fractions, so that the solver has little to try. A limit of the bytes that a rank
stores is a row of the program, and makes fractions of few variables.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product

import highspy
import numpy as np
import onnx_ir as ir

from ...source_graph.source_graph import SourceGraph
from ..emission.conversions import convertible
from ..placement.operator_node import Strategy
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
from ..planning.stage_weights import is_vector
from .classes import NodeClasses, uses_of
from .integer_search import least_of, nearly_least_of
from .solution import Solution, StorageLimit

_Need = Mapping[Placement, Sequence[int] | None]
"""The strategies of a consumer, or of a producer, by placement. None: it is needed anyway."""

_MARGIN = 2e-6
"""The part of a limit that is kept free: HiGHS takes sums that are a millionth above a limit."""

_UNIT = 1e6
"""The objective is in microseconds: HiGHS takes differences below 1e-7 for nothing."""


@dataclass(slots=True)
class _Rows:
    """The rows of the program: sums of variables with a lower and an upper limit."""

    starts: list[int] = field(default_factory=lambda: [0])
    columns: list[int] = field(default_factory=list)
    factors: list[float] = field(default_factory=list)
    lower: list[float] = field(default_factory=list)
    upper: list[float] = field(default_factory=list)

    def add(self, terms: Sequence[tuple[int, float]], lower: float, upper: float) -> None:
        """Add a row."""
        self.columns += [column for column, _ in terms]
        self.factors += [factor for _, factor in terms]
        self.starts.append(len(self.columns))
        self.lower.append(lower)
        self.upper.append(upper)

    def copy(self) -> _Rows:
        """Rows to which others can be added."""
        columns, factors = list(self.columns), list(self.factors)
        return _Rows(list(self.starts), columns, factors, list(self.lower), list(self.upper))


@dataclass(frozen=True, slots=True)
class _Stored:
    """A variable that says whether weights are stored in a placement: the bytes of each rank."""

    column: int
    most: int
    nbytes: Sequence[int]
    is_vector: bool


class SliceProgram:
    """The program of one graph, which is solved for several limits and prices of a byte."""

    def __init__(
        self, graph: SourceGraph, found: Candidates, classes: NodeClasses, costs: HostCosts
    ) -> None:
        self._graph = graph
        self._found = found
        self._classes = classes
        self._costs = costs_of(graph, costs)
        self._cost: list[float] = []
        self._integer: list[bool] = []
        self._rows = _Rows()
        self._takes: dict[tuple[int, Strategy], int] = {}
        self._stored: list[_Stored] = []
        self._least = 0.0
        self._produced: dict[int, dict[Placement, list[int]]] = defaultdict(dict)
        self._add_nodes()
        self._add_values()
        self._add_states()

    def _variable(self, cost: float, integer: bool = False) -> int:
        self._cost.append(cost * _UNIT)
        self._integer.append(integer)
        return len(self._cost) - 1

    def _add_nodes(self) -> None:
        """One strategy for each class."""
        for number, members in enumerate(self._classes.node_members):
            first = str(members[0].name)
            seen = self._found.nodes[first]
            columns = []
            for strategy in self._found.strategies[first]:
                seconds = node_seconds(seen, strategy, self._costs) * len(members)
                column = self._variable(seconds, integer=True)
                self._takes[number, strategy] = column
                columns.append((column, 1.0))
                for value, placement in zip(members[0].outputs, strategy.outputs, strict=True):
                    if value.name:
                        produced = self._produced[self._classes.values[str(value.name)]]
                        produced.setdefault(placement, []).append(column)
            self._rows.add(columns, 1.0, 1.0)

    def _add_values(self) -> None:
        """Let each need of a consumer be produced, converted or stored."""
        uses = uses_of(self._classes, self._graph)
        for number, members in enumerate(self._classes.value_members):
            needs = self._needs(uses.get(number, ()))
            if any(self._is_given(value) for value in members) or _is_captured(members[0]):
                needs.append({WHOLE: None})
            if members[0].producer() is not None:
                self._convert(number, members, needs)
            else:
                self._provide(members, needs)

    def _add_states(self) -> None:
        """Let each state be taken as it was kept: no rank has the parts of others."""
        uses, numbers = uses_of(self._classes, self._graph), self._classes.values
        states = self._graph.states.items()
        pairs = {(numbers[kept], numbers[taken]) for kept, taken in states if taken}
        for kept, taken in sorted(pairs):
            produced = self._produced[kept]
            for need in self._needs(uses.get(taken, ())):
                for placement in {**produced, **need}:
                    made, used = produced.get(placement, ()), need.get(placement) or ()
                    # a node that takes and makes a state is in both
                    terms = [(one, 1.0) for one in made if one not in used]
                    terms += [(one, -1.0) for one in used if one not in made]
                    if terms:
                        self._rows.add(terms, 0.0, 0.0)

    def _is_given(self, value: ir.Value) -> bool:
        """Whether a value is given out whole."""
        return value.is_graph_output() and value.name not in self._graph.states

    def _needs(self, uses: Sequence[tuple[int, int]]) -> list[_Need]:
        """For each consumer, the columns of its strategies by the placement that they need."""
        needs: list[_Need] = []
        for node, index in uses:
            first = str(self._classes.node_members[node][0].name)
            need: dict[Placement, list[int]] = {}
            for strategy in self._found.strategies[first]:
                need.setdefault(strategy.inputs[index], []).append(self._takes[node, strategy])
            needs.append(need)
        return needs

    def _provide(self, members: Sequence[ir.Value], needs: Sequence[_Need]) -> None:
        """Store a weight, or split an input, for all consumers that need the same placement."""
        placements = {placement: None for need in needs for placement in need}
        if members[0].is_initializer() and placements:
            self._least += min(weight_bytes(members[0], one) for one in placements) * len(members)
        for placement in placements:
            column = self._provision(members, placement)
            for need in needs:
                if column is not None:
                    terms = [(taken, -1.0) for taken in need.get(placement) or ()]
                    self._rows.add([(column, 1.0), *terms], 0.0, math.inf)

    def _provision(self, members: Sequence[ir.Value], placement: Placement) -> int | None:
        """The variable of a stored weight or a split input; None for an input that is whole."""
        value = members[0]
        if value.is_initializer():
            column = self._variable(0.0)
            most = weight_bytes(value, placement) * len(members)
            parts = _parts(most, placement, next(iter(self._found.nodes.values())).ranks)
            self._stored.append(_Stored(column, most, parts, is_vector(value)))
            return column
        if placement == WHOLE:
            return None
        return self._conversion(value, len(members), WHOLE, placement)

    def _convert(self, number: int, members: Sequence[ir.Value], needs: Sequence[_Need]) -> None:
        """Let a value flow from how it is produced to how each consumer needs it."""
        made: dict[tuple[Placement, Placement], int] = {}
        for need in needs:
            flows = {
                pair: self._variable(0.0)
                for pair in product(self._produced[number], need)
                if pair[0] == pair[1] or convertible(*pair)
            }
            for (before, after), flow in flows.items():
                if before != after and (before, after) not in made:
                    column = self._conversion(members[0], len(members), before, after)
                    made[before, after] = column
                if before != after:
                    self._rows.add([(made[before, after], 1.0), (flow, -1.0)], 0.0, math.inf)
            for index, ends in enumerate((self._produced[number], need)):
                for placement, columns in ends.items():
                    own = [flow for pair, flow in flows.items() if pair[index] == placement]
                    self._balance(own, columns)

    def _balance(self, flows: Sequence[int], columns: Sequence[int] | None) -> None:
        """Let flows be one in all if one of the columns is taken; None is always taken."""
        taken = 1.0 if columns is None else 0.0
        terms = [(column, -1.0) for column in columns or ()]
        self._rows.add([*((flow, 1.0) for flow in flows), *terms], taken, taken)

    def _conversion(self, value: ir.Value, count: int, before: Placement, after: Placement) -> int:
        dims = self._graph.dims[str(value.name)]
        size = itemsize(value, before, after)
        seconds = conversion_seconds(dims, size, before, after, self._costs)
        return self._variable(seconds * count)

    def solve(
        self,
        price: float,
        deadline: float,
        limit: StorageLimit | None = None,
        at_once: bool = False,
    ) -> Solution | None:
        """The best strategies where a stored byte costs `price` seconds; None if none fits `limit`.

        `deadline` is a time of time.monotonic(). TimeoutError where nothing was found until then.
        With `at_once`, good ones are enough.
        """
        search = nearly_least_of if at_once else least_of
        found = search(self._model(price, limit), np.array(self._integer), deadline)
        if found is None:
            return None
        return Solution(self._chosen(found.values), found.bound / _UNIT)

    def _limited(self, limit: StorageLimit) -> _Rows:
        """The rows, and one for each rank whose bytes have a limit."""
        rows = self._rows.copy()
        counted = [one for one in self._stored if limit.vectors or not one.is_vector]
        seen = dict.fromkeys(zip(*(one.nbytes for one in counted), strict=True))
        for each in seen:  # ranks with even parts have the same row
            terms = [
                (one.column, nbytes / max(limit.nbytes, 1))
                for one, nbytes in zip(counted, each, strict=True)
            ]
            half = 0.5 / max(limit.nbytes, 1)  # bytes are whole: the limit itself is within
            rows.add(terms, -math.inf, 1.0 + half - _MARGIN)
        return rows

    def _model(self, price: float, limit: StorageLimit | None = None) -> highspy.HighsLp:
        """The program in which variables may be fractions."""
        rows = self._limited(limit) if limit is not None else self._rows
        lp = highspy.HighsLp()
        cost = np.array(self._cost)
        for one in self._stored:
            cost[one.column] = price * one.most * _UNIT
        lp.num_col_, lp.num_row_ = len(cost), len(rows.lower)
        lp.col_cost_ = cost
        lp.offset_ = -price * self._least * _UNIT  # the cost is of what can be chosen
        lp.col_lower_, lp.col_upper_ = np.zeros(len(cost)), np.ones(len(cost))
        lp.row_lower_, lp.row_upper_ = np.array(rows.lower), np.array(rows.upper)
        lp.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
        lp.a_matrix_.start_ = np.array(rows.starts)
        lp.a_matrix_.index_ = np.array(rows.columns)
        lp.a_matrix_.value_ = np.array(rows.factors)
        return lp

    def _chosen(self, values: np.ndarray) -> dict[str, Strategy]:
        found = {}
        for (number, strategy), column in self._takes.items():
            if values[column] > 0.5:
                for node in self._classes.node_members[number]:
                    found[str(node.name)] = strategy
        return found


def _parts(most: int, placement: Placement, ranks: int) -> list[int]:
    """The bytes of each rank, if the one with the largest part has `most`."""
    if not isinstance(placement, Split | Windows):
        return [most] * ranks
    return [-(-most * placement.size(rank) // placement.largest) for rank in range(ranks)]


def _is_captured(value: ir.Value) -> bool:
    """Whether a body of an If, Loop or Scan uses a value, which it does whole."""
    return any(use.node.graph is not _graph_of(value) for use in value.uses())


def _graph_of(value: ir.Value) -> ir.Graph | ir.Function | None:
    producer = value.producer()
    return producer.graph if producer is not None else value.graph
