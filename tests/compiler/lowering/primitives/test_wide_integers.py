"""Integers beyond 32 bits, of which onnxruntime's own Max, Min, ReduceMax and ReduceMin are
wrong."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from primitives import check

X = np.array([[5, 3_000_000_000, 7, -9, 2**40], [-3_000_000_000, 1, 2**33, -2, 4_000_000_000]])
Y = np.array([3_000_000_000, 5, 2**33, -3_000_000_000, 1])
NATURAL = (np.abs(X) % 2**32).astype(np.uint32)


@pytest.mark.parametrize("dynamic", [False, True])
def test_larger_and_smaller(tmp_path: Path, dynamic: bool) -> None:
    check(tmp_path, "Maximum", [X, Y], np.maximum(X, Y), dynamic)
    check(tmp_path, "Minimum", [X, Y], np.minimum(X, Y), dynamic)
    check(
        tmp_path,
        "Maximum",
        [NATURAL, NATURAL[::-1].copy()],
        np.maximum(NATURAL, NATURAL[::-1]),
        dynamic,
    )
    check(tmp_path, "ClampScalar", [X, 6, 3_000_000_001], np.clip(X, 6, 3_000_000_001), dynamic)


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("x", [X, NATURAL])
@pytest.mark.parametrize(("primitive", "function"), [("ReduceMax", np.max), ("ReduceMin", np.min)])
def test_extremes_along_axes(
    tmp_path: Path, primitive: str, function: np.ufunc, x: np.ndarray, dynamic: bool
) -> None:
    check(tmp_path, primitive, [x, (1,), False], function(x, axis=1), dynamic)
    check(tmp_path, primitive, [x, (-2, 1), True], function(x, axis=(0, 1), keepdims=True), dynamic)
    check(tmp_path, primitive, [x, (), True], function(x, keepdims=True), dynamic)
    check(tmp_path, primitive, [x, (), False], np.asarray(function(x)), dynamic)


def test_running_extremes(tmp_path: Path) -> None:
    values = np.minimum.accumulate(X, 1)
    places = np.array([[0, 0, 0, 3, 3], [0, 0, 0, 0, 0]])
    check(tmp_path, "Cummin", [X, 1], (values, places))
