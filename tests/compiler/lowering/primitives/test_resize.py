"""Resizing and padding against numpy."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from primitives import Fixed, check

RNG = np.random.default_rng(3)
both = pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])


def normal(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32)


def test_nearest_pixels(tmp_path: Path) -> None:
    x = normal(1, 2, 4, 6)
    rows, columns = np.arange(6) * 4 // 6, np.arange(9) * 6 // 9
    check(
        tmp_path,
        "ResizeNearestNeighborV2",
        [x, (6, 9), False, False],
        x[:, :, rows][..., columns],
        dynamic=True,
    )
    check(
        tmp_path,
        "UpsampleNearest2D",
        [x, None, (2.0, 3.0)],
        x.repeat(2, 2).repeat(3, 3),
        dynamic=True,
    )
    rows, columns = (
        np.floor((np.arange(n) + 0.5) * m / n).astype(int) for n, m in ((3, 4), (9, 6))
    )
    check(
        tmp_path, "ResizeNearestNeighborV2", [x, (3, 9), False, True], x[:, :, rows][..., columns]
    )
    corners = x[:, :, [0, 1, 2, 3]][..., [0, 5]]
    check(tmp_path, "ResizeNearestNeighborV2", [x, (4, 2), True, False], corners)


def test_linear_interpolation(tmp_path: Path) -> None:
    x = normal(1, 1, 3, 3)
    places = np.linspace(0, 2, 5)
    rows = np.stack([np.interp(places, [0, 1, 2], x[0, 0, :, c]) for c in range(3)], 1)
    expected = np.stack([np.interp(places, [0, 1, 2], row) for row in rows])[None, None].astype(
        np.float32
    )
    check(tmp_path, "ResizeBilinearV2", [x, (5, 5), True, False], expected, dynamic=True)


def cubic(before: int, behind: int, corners: bool) -> np.ndarray:
    """The weights [behind, before] of Keys' cubic convolution with a = -0.75; what lies outside is
    the edge's.
    """
    at = np.arange(behind)
    places = at * (before - 1) / (behind - 1) if corners else (at + 0.5) * before / behind - 0.5
    weights = np.zeros((behind, before))
    for row, place in enumerate(places):
        for pixel in range(int(np.floor(place)) - 1, int(np.floor(place)) + 3):
            d = abs(place - pixel)
            inner, outer = 1.25 * d**3 - 2.25 * d**2 + 1, -0.75 * (d**3 - 5 * d**2 + 8 * d - 4)
            weights[row, np.clip(pixel, 0, before - 1)] += inner if d <= 1 else outer
    return weights


@both
@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
@pytest.mark.parametrize("corners", [False, True])
def test_cubic_interpolation(tmp_path: Path, corners: bool, dtype: str, dynamic: bool) -> None:
    x = normal(1, 2, 4, 5).astype(dtype)
    wanted = cubic(4, 7, corners) @ x.astype(np.float64) @ cubic(5, 8, corners).T
    check(tmp_path, "UpsampleBicubic2D", [x, (7, 8), None, corners], wanted.astype(dtype), dynamic)


@both
def test_padding(tmp_path: Path, dynamic: bool) -> None:
    x = normal(2, 3, 4)
    check(
        tmp_path,
        "Pad",
        [x],
        np.pad(x, ((0, 0), (1, 1), (0, 2))),
        dynamic,
        paddings=((0, 0), (1, 1), (0, 2)),
    )
    check(
        tmp_path,
        "PadV3",
        [x, (1, 2, 0, 1), Fixed(np.array(0.5, np.float32))],
        np.pad(x, ((0, 0), (0, 1), (1, 2)), constant_values=0.5),
        dynamic,
        mode="constant",
        paddings_contiguous=True,
    )
    check(
        tmp_path,
        "PadV3",
        [x, (1, 0, 2, 1), None],
        np.pad(x, ((0, 0), (0, 1), (1, 2)), mode="reflect"),
        dynamic,
        mode="reflect",
        paddings_contiguous=False,
    )
    check(
        tmp_path,
        "ConstantPadND",
        [x.astype(np.int32), (-1, 1), 7],
        np.pad(x.astype(np.int32)[..., 1:], ((0, 0), (0, 0), (0, 1)), constant_values=7),
        dynamic,
    )
    check(
        tmp_path,
        "ReplicationPad1D",
        [x, (2, 1)],
        np.pad(x, ((0, 0), (0, 0), (2, 1)), mode="edge"),
        dynamic,
    )
