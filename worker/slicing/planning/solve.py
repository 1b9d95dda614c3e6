"""Solver: chooses a strategy for each class of nodes by a mixed-integer program.

A variable says whether a class of nodes takes a strategy. A class of values offers a placement if
its producer computes it, or if a conversion makes it, which costs time. Consumers share what is
offered: a value is converted once, not for each of them. A weight offers any placement that it is
stored in, and each byte stored has a price, so that a dearer byte makes a smaller shard.
"""

from __future__ import annotations

import math
import time
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field

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
                needs.setdefault(WHOLE, []).append(None)
            for placement, users in needs.items():
                offered = self._offer(number, members, placement)
                for user in users:
                    terms = [(column, 1.0) for column in user or ()]
                    least = 0.0 if user is not None else 1.0
                    if offered is not None:
                        terms = [(c, -f) for c, f in terms]
                        self._rows.add([*terms, *offered], least, math.inf)

    def _needs(
        self, uses: Sequence[tuple[int, int]]
    ) -> dict[Placement, list[Sequence[int] | None]]:
        """For each placement, the columns of each consumer's strategies that need it."""
        needs: dict[Placement, list[Sequence[int] | None]] = {}
        for node, index in uses:
            first = str(self._classes.node_members[node][0].name)
            by_placement: dict[Placement, list[int]] = defaultdict(list)
            for strategy in self._found.strategies[first]:
                by_placement[strategy.inputs[index]].append(self._takes[node, strategy])
            for placement, columns in by_placement.items():
                needs.setdefault(placement, []).append(columns)
        return needs

    def _offer(
        self, number: int, members: Sequence[ir.Value], placement: Placement
    ) -> list[tuple[int, float]] | None:
        """The terms that must cover a need; None for a whole input, which is always there."""
        value = members[0]
        if value.is_initializer():
            stored = weight_bytes(value, placement) * len(members)
            column = self._variable(0.0)
            self._stored.append((column, stored))
            return [(column, 1.0)]
        if value.producer() is None:
            if placement == WHOLE:
                return None
            return [(self._conversion(value, len(members), WHOLE, placement), 1.0)]
        produced = self._produced[number]
        terms = [(column, 1.0) for column in produced.get(placement, ())]
        for before, columns in produced.items():
            if convertible(before, placement):
                made = self._conversion(value, len(members), before, placement)
                self._rows.add([(made, -1.0), *((c, 1.0) for c in columns)], 0.0, math.inf)
                terms.append((made, 1.0))
        return terms

    def _conversion(self, value: ir.Value, count: int, before: Placement, after: Placement) -> int:
        dims = self._graph.dims[str(value.name)]
        seconds = conversion_seconds(dims, itemsize(value), before, after, self._costs)
        return self._variable(seconds * count)

    def solve(self, price: float, deadline: float, gap: float = 0.005) -> Solution:
        """The best strategies where a stored byte costs `price` seconds.

        `deadline` is a time of time.monotonic(). TimeoutError where nothing was found until then.
        """
        lp = self._model(price)
        solver = highspy.Highs()  # type: ignore[no-untyped-call]  # its stubs are partial
        solver.setOptionValue("output_flag", False)
        solver.setOptionValue("mip_rel_gap", gap)
        solver.setOptionValue("time_limit", max(deadline - time.monotonic(), 1.0))
        solver.passModel(lp)
        solver.run()
        values = np.array(solver.getSolution().col_value)
        if not values.size or not solver.getInfo().primal_solution_status == 2:
            raise TimeoutError("The solver found no plan in its time.")
        found = self._chosen(values)
        return Solution(found, max(0.0, float(solver.getInfo().mip_gap)))

    def _model(self, price: float) -> highspy.HighsLp:
        lp = highspy.HighsLp()
        cost = np.array(self._cost)
        for column, stored in self._stored:
            cost[column] = price * stored * _UNIT
        lp.num_col_, lp.num_row_ = len(cost), len(self._rows.lower)
        lp.col_cost_ = cost
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
