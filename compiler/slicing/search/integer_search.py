"""Integer search: solves a mixed-integer program by its relaxation, then near it, then in full.

The relaxation, where variables may be fractions, takes little time, and its cost is a bound. Its
few fractions are rounded one after another, while the relaxation is solved again. The relaxation
then tells which variables no cheaper solution takes, or leaves out: with these fixed, HiGHS finds
the best solution in little time. Where rounding ends far from the bound, the variables that are
whole in both solutions stay, while HiGHS decides the others; in the end it decides all.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass

import highspy
import numpy as np

_NEAR = 0.01
"""How far a solution may be above the bound, as a part of its cost, to be good enough."""

_AIM = 0.005
"""How far HiGHS may be above the least cost where it searches in full."""

_EXACT = 1e-9
"""The same where few variables are left: plans for two limits then are never worse in both."""

_WHOLE = 1e-6
"""How far a number may be from a whole one."""

_TIE = 1e-6
"""Costs that differ by less are equal: HiGHS is no more precise."""

_SURE, _LIKELY = 0.9, 0.5
"""Fractions from which all are rounded up at once, and those in haste; else the largest one is."""

_PART = 0.3
"""The part of the time that is left which a search near the relaxation may take."""


@dataclass(frozen=True, slots=True)
class Found:
    """The values of the variables, and a bound: no solution costs less."""

    values: np.ndarray
    bound: float


def nearly_least_of(lp: highspy.HighsLp, integer: np.ndarray, deadline: float) -> Found | None:
    """A good solution by rounding; None where there is none, or it is not found so.

    `integer` tells which variables are 0 or 1. `deadline` is a time of time.monotonic().
    """
    solver = _run(lp, deadline)
    if solver.getModelStatus() != highspy.HighsModelStatus.kOptimal:
        return None
    bound = float(solver.getInfo().objective_function_value)
    found = _rounded(solver, integer, deadline)
    return Found(found, bound) if found is not None else None


def least_of(lp: highspy.HighsLp, integer: np.ndarray, deadline: float) -> Found | None:
    """The solution with about the least cost; None where there is none.

    Parameters are as for nearly_least_of. TimeoutError where no solution was found until the
    deadline.
    """
    solver = _run(lp, deadline)
    if solver.getModelStatus() == highspy.HighsModelStatus.kInfeasible:
        return None
    if solver.getModelStatus() != highspy.HighsModelStatus.kOptimal:
        raise TimeoutError("The solver found no plan in its time.")
    solution = solver.getSolution()
    relaxed = np.array(solution.col_value), np.array(solution.col_dual)
    bound = float(solver.getInfo().objective_function_value)
    found = _rounded(solver, integer, deadline)
    kinds = highspy.HighsVarType
    lp.integrality_ = [kinds.kInteger if one else kinds.kContinuous for one in integer]
    if found is None or not _is_near(lp, found, bound):
        found = _near(lp, integer, relaxed[0], found, deadline)
    if found is not None:
        best = _best(lp, relaxed, bound, found, deadline)
        if _is_near(lp, best.values, best.bound):
            return best
        found, bound = best.values, best.bound
    return _in_full(lp, found, bound, deadline)


def _best(
    lp: highspy.HighsLp,
    relaxed: tuple[np.ndarray, np.ndarray],
    bound: float,
    found: np.ndarray,
    deadline: float,
) -> Found:
    """The best solution, or what is found in a part of the time.

    `relaxed` has the relaxation's values, and its reduced costs. A variable whose reduced cost is
    above what `found` costs beyond the bound keeps its value in the relaxation: a solution in which
    it has another one is dearer than `found`.
    """
    beyond = _cost(lp, found) - bound + _TIE
    if beyond <= 2 * _TIE:
        return Found(found, bound)
    values, reduced = relaxed
    lower, upper = np.array(lp.col_lower_), np.array(lp.col_upper_)
    lp.col_lower_ = np.where((reduced < -beyond) & (values > 1 - _WHOLE), 1.0, lower)
    lp.col_upper_ = np.where((reduced > beyond) & (values < _WHOLE), 0.0, upper)
    solver = _run(lp, _until(deadline), found, _EXACT)
    lp.col_lower_, lp.col_upper_ = lower, upper
    best = _cheaper(lp, found, _solution(solver))
    assert best is not None
    return Found(best, _raised(lp, bound, best, solver))


def _raised(lp: highspy.HighsLp, bound: float, found: np.ndarray, solver: highspy.Highs) -> float:
    """The bound, or the higher one that a search has proved."""
    least = float(solver.getInfo().mip_dual_bound)
    return max(bound, min(least, _cost(lp, found))) if math.isfinite(least) else bound


def _until(deadline: float) -> float:
    """When the search near the relaxation has to end, so that most of the time is left."""
    return time.monotonic() + _PART * max(deadline - time.monotonic(), 1.0)


def _rounded(solver: highspy.Highs, integer: np.ndarray, deadline: float) -> np.ndarray | None:
    """A whole solution near the relaxed one; None where rounding meets a dead end."""
    values = np.array(solver.getSolution().col_value)
    haste = (time.monotonic() + deadline) / 2
    while time.monotonic() < deadline:
        parts = np.where(integer & (np.abs(values - np.round(values)) > _WHOLE), values, 0.0)
        if not parts.any():
            return values
        enough = _SURE if time.monotonic() < haste else _LIKELY
        sure, largest = np.flatnonzero(parts >= enough), np.array([parts.argmax()])
        tried = [(sure, 1.0)] if sure.size else []
        for columns, value in (*tried, (largest, 1.0), (largest, 0.0)):
            next_values = _with(solver, columns, value)
            if next_values is not None:
                break
        else:
            return None
        values = next_values
    return None


def _with(solver: highspy.Highs, columns: np.ndarray, value: float) -> np.ndarray | None:
    """The relaxed solution where some variables have a value; None where there is none."""
    for column in columns:
        solver.changeColBounds(int(column), value, value)
    solver.run()
    if solver.getModelStatus() == highspy.HighsModelStatus.kOptimal:
        return np.array(solver.getSolution().col_value)
    for column in columns:
        solver.changeColBounds(int(column), 0.0, 1.0)
    return None


def _near(
    lp: highspy.HighsLp,
    integer: np.ndarray,
    relaxed: np.ndarray,
    found: np.ndarray | None,
    deadline: float,
) -> np.ndarray | None:
    """The best solution that keeps what the relaxation and `found` both take."""
    taken = integer & (relaxed > 1 - _WHOLE)
    if found is not None:
        taken &= found > 1 - _WHOLE
    lower = np.array(lp.col_lower_)
    lp.col_lower_ = np.where(taken, 1.0, lower)
    solver = _run(lp, _until(deadline), found)
    lp.col_lower_ = lower
    return _cheaper(lp, found, _solution(solver))


def _in_full(
    lp: highspy.HighsLp, found: np.ndarray | None, bound: float, deadline: float
) -> Found | None:
    """The best of `found` and what a search from there finds until the deadline."""
    solver = _run(lp, deadline, found)
    if solver.getModelStatus() == highspy.HighsModelStatus.kInfeasible:
        return None
    best = _cheaper(lp, found, _solution(solver))
    if best is None:
        raise TimeoutError("The solver found no plan in its time.")
    return Found(best, _raised(lp, bound, best, solver))


def _cheaper(
    lp: highspy.HighsLp, first: np.ndarray | None, second: np.ndarray | None
) -> np.ndarray | None:
    if first is None or second is None:
        return second if first is None else first
    return first if _cost(lp, first) <= _cost(lp, second) else second


def _is_near(lp: highspy.HighsLp, values: np.ndarray, bound: float) -> bool:
    cost = _cost(lp, values)
    return cost - bound <= _NEAR * abs(cost)


def _cost(lp: highspy.HighsLp, values: np.ndarray) -> float:
    return float(np.array(lp.col_cost_) @ values) + float(lp.offset_)


def _run(
    lp: highspy.HighsLp, deadline: float, start: np.ndarray | None = None, aim: float = _AIM
) -> highspy.Highs:
    solver = highspy.Highs()  # type: ignore[no-untyped-call]  # its stubs are partial
    solver.setOptionValue("output_flag", False)
    solver.setOptionValue("mip_rel_gap", aim)
    solver.setOptionValue("time_limit", max(deadline - time.monotonic(), 1.0))
    solver.passModel(lp)
    if start is not None:
        first = highspy.HighsSolution()
        first.col_value = list(start)
        solver.setSolution(first)
    solver.run()
    return solver


def _solution(solver: highspy.Highs) -> np.ndarray | None:
    """The best solution that was found."""
    values = np.array(solver.getSolution().col_value)
    feasible = solver.getInfo().primal_solution_status == 2
    return values if values.size and feasible else None
