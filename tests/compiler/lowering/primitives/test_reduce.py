"""Reductions, order and running values against numpy."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from primitives import check

RNG = np.random.default_rng(3)
both = pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])


def normal(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32)


@both
def test_reductions(tmp_path: Path, dynamic: bool) -> None:
    x, i = normal(2, 3, 4), np.arange(24, dtype=np.int32).reshape(2, 3, 4)
    check(tmp_path, "ReduceMean", [x, (), False], x.mean(), dynamic)
    check(tmp_path, "ReduceMean", [x, (-1, 0), True], x.mean((2, 0), keepdims=True), dynamic)
    check(tmp_path, "ReduceMax", [i, 1, False], i.max(1), dynamic)
    check(tmp_path, "ReduceSum", [x, (1,), False, False], x.sum(1), dynamic)
    check(tmp_path, "ReduceSum", [x, (), False, True], x, dynamic)
    check(tmp_path, "SumExt", [i, None, False, None], i.sum(dtype=np.int64), dynamic)
    check(tmp_path, "SumExt", [x > 0, (1,), True, None], (x > 0).sum(1, keepdims=True), dynamic)
    check(tmp_path, "MeanExt", [x, (0, 1), False, 44], x.astype(np.float64).mean((0, 1)), dynamic)
    check(tmp_path, "ReduceAll", [x > -1, (1,), False], (x > -1).all(1), dynamic)
    check(tmp_path, "ReduceAny", [x > 1, (), True], (x > 1).any(keepdims=True), dynamic)
    check(tmp_path, "Var", [x, (1, 2), 1, False], x.var((1, 2), ddof=1), dynamic)
    check(tmp_path, "Std", [x, None, 0, True], x.std(keepdims=True), dynamic)
    cubic = (np.abs(x) ** 3).sum(1) ** np.float32(1 / 3)
    check(tmp_path, "LinalgVectorNorm", [x, 3.0, (1,), False, None], cubic, dynamic)
    check(
        tmp_path, "LinalgVectorNorm", [x, float("inf"), None, False, None], np.abs(x).max(), dynamic
    )


@both
def test_extremes_and_where_they_are(tmp_path: Path, dynamic: bool) -> None:
    x = np.array([[3, 9, 9, 1], [4, 2, 2, 4]], np.float32)
    check(tmp_path, "Argmax", [x, -1, 34], np.array([1, 0], np.int32), dynamic)
    check(tmp_path, "Argmin", [x, 0, 35], np.array([0, 1, 1, 0]), dynamic)
    check(tmp_path, "ArgMaxExt", [x, None, False], np.array(1), dynamic)
    check(tmp_path, "ArgMaxExt", [x, 1, True], np.array([[1], [0]]), dynamic)
    check(
        tmp_path, "ArgMaxWithValue", [x, 1, False], (np.array([1, 0], np.int32), x.max(1)), dynamic
    )
    check(tmp_path, "MinDim", [x, 0, True], (x.min(0, keepdims=True), x.argmin(0)[None]), dynamic)
    check(tmp_path, "Max", [x], x.max(), dynamic)


@both
def test_order(tmp_path: Path, dynamic: bool) -> None:
    x = RNG.permutation(24).astype(np.float32).reshape(2, 3, 4)
    order = x.argsort(1)
    check(
        tmp_path,
        "Sort",
        [x],
        (np.sort(x, 1), order.astype(np.int32)),
        dynamic,
        axis=1,
        descending=False,
    )
    best = -np.sort(-x)[..., :2], (-x).argsort()[..., :2].astype(np.int32)
    check(tmp_path, "TopK", [x, 2], best, dynamic, sorted=True)
    check(
        tmp_path, "TopkExt", [x, 2, 1, False, True], (np.sort(x, 1)[:, :2], order[:, :2]), dynamic
    )
    check(tmp_path, "ArgSort", [x, 1, True, False], (-x).argsort(1), dynamic)


def test_running_values(tmp_path: Path) -> None:
    x = np.array([[1, 3, 2, 3], [-1, -4, -1, 0]], np.float32)
    check(tmp_path, "CumSum", [x, 1, False, True], np.cumsum(x[:, ::-1], 1)[:, ::-1])
    check(tmp_path, "CumSum", [x, 0, True, False], np.stack([x[0] * 0, x[0]]))
    check(tmp_path, "CumsumExt", [x.astype(np.int32), -1, None], x.astype(np.int64).cumsum(1))
    check(tmp_path, "CumProd", [x, 1, False, False], x.cumprod(1))
    check(
        tmp_path, "CumProd", [x, 1, True, True], np.array([[18, 6, 3, 1], [0, 0, 0, 1]], np.float32)
    )
    check(
        tmp_path,
        "Cummax",
        [x, 1],
        (np.maximum.accumulate(x, 1), np.array([[0, 1, 1, 3], [0, 0, 2, 3]], np.int32)),
    )
    check(
        tmp_path,
        "Median",
        [x],
        (np.array([2, -1], np.float32), np.array([2, 0], np.int32)),
        axis=1,
        global_median=False,
        keep_dims=False,
    )
