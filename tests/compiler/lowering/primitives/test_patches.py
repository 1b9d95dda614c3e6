"""Patches of images against windows cut by numpy."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from numpy.lib.stride_tricks import sliding_window_view
from primitives import check

from rankmesh.comm.errors import ModelError

X = np.random.default_rng(4).standard_normal((2, 3, 7, 8)).astype(np.float32)


def patches(x: np.ndarray, size: tuple[int, int], stride: int, rate: int) -> np.ndarray:
    reach = [(k - 1) * rate + 1 for k in size]
    windows = sliding_window_view(x, reach, (2, 3))[:, :, ::stride, ::stride, ::rate, ::rate]
    n, c, h, w, kh, kw = windows.shape
    return np.ascontiguousarray(windows.transpose(0, 4, 5, 1, 2, 3).reshape(n, kh * kw * c, h, w))


@pytest.mark.parametrize(
    ("size", "stride", "rate"), [((2, 2), 1, 1), ((3, 2), 2, 1), ((2, 3), 1, 2), ((1, 1), 3, 1)]
)
@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("dynamic", [False, True])
def test_valid(
    tmp_path: Path, size: tuple[int, int], stride: int, rate: int, dtype: str, dynamic: bool
) -> None:
    x = X.astype(dtype)
    check(
        tmp_path,
        "ExtractImagePatches",
        [x, size, (stride, stride), (rate, rate), 2],
        patches(x, size, stride, rate),
        dynamic,
    )


@pytest.mark.parametrize("mode", [1, "SAME"])
def test_same_puts_the_larger_half_at_the_end(tmp_path: Path, mode: int | str) -> None:
    padded = np.pad(X, ((0, 0), (0, 0), (1, 1), (0, 1)))
    check(
        tmp_path,
        "ExtractImagePatches",
        [X, (1, 1, 3, 3), (1, 1, 2, 2), (1, 1, 1, 1), mode],
        patches(padded, (3, 3), 2, 1),
    )


def test_same_with_rates_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="padding SAME are not supported"):
        check(tmp_path, "ExtractImagePatches", [X, (3, 3), (1, 1), (2, 2), 1], X)
