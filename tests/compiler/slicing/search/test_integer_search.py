"""Search of integers: as good as trying all, an honest bound, programs without a solution."""

from __future__ import annotations

import math
import time
from itertools import product

import numpy as np
import pytest

highspy = pytest.importorskip(
    "highspy", reason="highspy is not installed: pip install 'rankmesh[slice]'"
)

from rankmesh.compiler.slicing.search.integer_search import (  # noqa: E402
    least_of,
    nearly_least_of,
)

pytestmark = pytest.mark.pure


def program(costs: np.ndarray, sizes: np.ndarray, room: float) -> highspy.HighsLp:
    """Take one thing of each row: `costs` and `sizes` are of things, all sizes fit `room`."""
    rows, things = costs.shape
    lp = highspy.HighsLp()
    lp.num_col_, lp.num_row_ = rows * things, rows + 1
    lp.col_cost_ = costs.ravel()
    lp.col_lower_, lp.col_upper_ = np.zeros(rows * things), np.ones(rows * things)
    lp.row_lower_ = np.array([*[1.0] * rows, -math.inf])
    lp.row_upper_ = np.array([*[1.0] * rows, room])
    lp.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
    lp.a_matrix_.start_ = np.array([*range(0, rows * things + 1, things), 2 * rows * things])
    lp.a_matrix_.index_ = np.array([*range(rows * things)] * 2)
    lp.a_matrix_.value_ = np.array([*[1.0] * (rows * things), *sizes.ravel()])
    return lp


def least(costs: np.ndarray, sizes: np.ndarray, room: float) -> float:
    """The least cost of all that fits."""
    rows = range(len(costs))
    return min(
        sum(costs[row, one] for row, one in zip(rows, taken, strict=True))
        for taken in product(range(costs.shape[1]), repeat=len(costs))
        if sum(sizes[row, one] for row, one in zip(rows, taken, strict=True)) <= room
    )


@pytest.mark.parametrize("seed", range(10))
def test_solutions_are_within_their_bound_and_near_the_best(seed: int) -> None:
    draw = np.random.default_rng(seed)
    costs, sizes = draw.uniform(1, 9, (6, 4)), draw.uniform(1, 9, (6, 4))
    room = float(sizes.mean() * 6)
    integer = np.ones(24, bool)
    best = least(costs, sizes, room)
    found = least_of(program(costs, sizes, room), integer, time.monotonic() + 60)
    assert found is not None
    assert set(np.unique(np.round(found.values, 6))) == {0.0, 1.0}
    assert found.values @ sizes.ravel() <= room + 1e-6
    assert best - 1e-6 <= found.values @ costs.ravel() <= best + 2e-6
    assert found.bound <= best + 1e-6
    quick = nearly_least_of(program(costs, sizes, room), integer, time.monotonic() + 60)
    if quick is not None:
        assert quick.values @ sizes.ravel() <= room + 1e-6
        assert quick.bound <= best + 1e-6 <= quick.values @ costs.ravel() + 2e-6


def test_a_program_without_a_solution_has_none() -> None:
    costs = sizes = np.full((2, 2), 3.0)
    for search in (least_of, nearly_least_of):
        lp = program(costs, sizes, 5.0)  # two things of 3 do not fit 5
        assert search(lp, np.ones(4, bool), time.monotonic() + 60) is None


def test_a_program_without_a_whole_solution_has_none() -> None:
    costs, sizes = np.array([[1.0, 1.0]]), np.array([[0.0, 2.0]])
    lp = program(costs, sizes, 1.0)
    lp.row_lower_ = np.array([1.0, 1.0])  # half of the second thing would have size 1
    assert least_of(lp, np.ones(2, bool), time.monotonic() + 60) is None
