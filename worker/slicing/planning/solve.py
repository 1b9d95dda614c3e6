"""Solver: chooses a strategy for each class of nodes by a mixed-integer program.

A variable says whether a class of nodes takes a strategy. A class of values flows from the
placement that its producer computes to the one that each consumer needs. Where these differ, the
flow needs a conversion, which costs time. Consumers share conversions: a value is converted once,
not for each of them. A weight is stored in the placements that are needed, and each byte stored has
a price, so that a dearer byte makes a smaller shard.

The flows make the program easy: nearly always the best solution has whole numbers, even where
variables may be fractions, so that the solver has little to try.
"""

from __future__ import annotations

import math
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product

import highspy
import numpy as np
import onnx_ir as ir

from ..emission.conversions import convertible
from ..graph.source_graph import SourceGraph
from ..placement.operator_node import Strategy
from ..placement.placements import WHOLE, Placement
from .classes import NodeClasses, uses_of
from .costs import HostCosts, conversion_seconds, itemsize, node_seconds, weight_bytes
from .propagate import Candidates
from .solution import Solution

_Need = Mapping[Placement, Sequence[int] | None]
"""The strategies of a consumer, or of a producer, by placement. None: it is needed anyway."""

_GAP = 0.005
"""How far a solution may be above the least cost."""

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


class SliceProgram:
    """The program of one graph, which is solved for several prices of a byte."""

    def __init__(
        self, graph: SourceGraph, found: Candidates, classes: NodeClasses, costs: HostCosts
    ) -> None:
        self._graph = graph
        self._found = found
        self._classes = classes
        self._costs = costs
        self._cost: list[float] = []
        self._integer: list[bool] = []
        self._rows = _Rows()
        self._takes: dict[tuple[int, Strategy], int] = {}
        self._stored: list[tuple[int, float]] = []
        self._least = 0.0
        self._known: list[np.ndarray] = []
        self._produced: dict[int, dict[Placement, list[int]]] = defaultdict(dict)
        self._add_nodes()
        self._add_values()

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
            if any(value.is_graph_output() for value in members) or _is_captured(members[0]):
                needs.append({WHOLE: None})
            if members[0].producer() is not None:
                self._convert(number, members, needs)
            else:
                self._provide(members, needs)

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
            self._stored.append((column, weight_bytes(value, placement) * len(members)))
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
        seconds = conversion_seconds(dims, itemsize(value), before, after, self._costs)
        return self._variable(seconds * count)

    def solve(self, price: float, deadline: float) -> Solution:
        """The best strategies where a stored byte costs `price` seconds.

        The search starts from what was found for other prices. `deadline` is a time of
        time.monotonic(). TimeoutError where nothing was found until then.
        """
        lp = self._model(price)
        solver = highspy.Highs()  # type: ignore[no-untyped-call]  # its stubs are partial
        solver.setOptionValue("output_flag", False)
        solver.setOptionValue("mip_rel_gap", _GAP)
        solver.setOptionValue("time_limit", max(deadline - time.monotonic(), 1.0))
        solver.passModel(lp)
        self._start(solver, np.array(lp.col_cost_))
        solver.run()
        values = np.array(solver.getSolution().col_value)
        if not values.size or not solver.getInfo().primal_solution_status == 2:
            raise TimeoutError("The solver found no plan in its time.")
        self._known.append(values)
        return Solution(self._chosen(values), max(0.0, float(solver.getInfo().mip_gap)))

    def _start(self, solver: highspy.Highs, cost: np.ndarray) -> None:
        """Let the solver begin with the best of the solutions for other prices."""
        if self._known:
            start = highspy.HighsSolution()
            start.col_value = list(min(self._known, key=lambda values: float(values @ cost)))
            solver.setSolution(start)

    def _model(self, price: float) -> highspy.HighsLp:
        lp = highspy.HighsLp()
        cost = np.array(self._cost)
        for column, stored in self._stored:
            cost[column] = price * stored * _UNIT
        lp.num_col_, lp.num_row_ = len(cost), len(self._rows.lower)
        lp.col_cost_ = cost
        lp.offset_ = -price * self._least * _UNIT  # the gap is one of what can be chosen
        lp.col_lower_, lp.col_upper_ = np.zeros(len(cost)), np.ones(len(cost))
        lp.row_lower_, lp.row_upper_ = np.array(self._rows.lower), np.array(self._rows.upper)
        lp.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
        lp.a_matrix_.start_ = np.array(self._rows.starts)
        lp.a_matrix_.index_ = np.array(self._rows.columns)
        lp.a_matrix_.value_ = np.array(self._rows.factors)
        kinds = highspy.HighsVarType
        lp.integrality_ = [kinds.kInteger if one else kinds.kContinuous for one in self._integer]
        return lp

    def _chosen(self, values: np.ndarray) -> dict[str, Strategy]:
        found = {}
        for (number, strategy), column in self._takes.items():
            if values[column] > 0.5:
                for node in self._classes.node_members[number]:
                    found[str(node.name)] = strategy
        return found


def _is_captured(value: ir.Value) -> bool:
    """Whether a body of an If, Loop or Scan uses a value, which it does whole."""
    return any(use.node.graph is not _graph_of(value) for use in value.uses())


def _graph_of(value: ir.Value) -> ir.Graph | ir.Function | None:
    producer = value.producer()
    return producer.graph if producer is not None else value.graph
