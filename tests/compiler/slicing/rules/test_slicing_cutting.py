"""Every strategy of slices, padding and triangles gives what the whole node gives."""

from __future__ import annotations

import numpy as np
import pytest
from slicing import check_strategies, one_node

DRAW = np.random.default_rng(6)


def normal(*shape: int) -> np.ndarray:
    return DRAW.standard_normal(shape).astype(np.float32)


def integers(*values: int) -> np.ndarray:
    return np.array(values, np.int64)


LARGE = np.iinfo(np.int64).max


@pytest.mark.parametrize(
    ("starts", "ends", "axes", "steps", "least"),
    [
        ((0,), (6,), (1,), (1,), 3),
        ((6,), (LARGE,), (1,), (1,), 3),
        ((3,), (9,), (1,), (1,), 2),
        ((-6,), (LARGE,), (-2,), (1,), 3),
        ((0,), (-6,), (1,), (1,), 3),
        ((1,), (-1,), (1,), (1,), 2),
        ((-100,), (100,), (1,), (1,), 3),
        ((0, 0), (LARGE, 3), (1, 2), (1, 1), 2),
        ((0,), (LARGE,), (1,), (2,), 2),
        ((-1,), (-LARGE,), (1,), (-1,), 2),
        ((4, 6), (8, 12), (2, 1), (1, 1), 2),
    ],
)
def test_slice(
    starts: tuple[int, ...],
    ends: tuple[int, ...],
    axes: tuple[int, ...],
    steps: tuple[int, ...],
    least: int,
) -> None:
    inputs = [normal(4, 12, 8), *(integers(*one) for one in (starts, ends, axes, steps))]
    check_strategies(*one_node("Slice", inputs, (1, 2, 3, 4)), ranks=(2, 3), least=least)


def test_slice_without_axes() -> None:
    inputs = [normal(4, 12, 8), integers(0, 6), integers(4, 12)]
    check_strategies(*one_node("Slice", inputs, (1, 2)), ranks=(2, 3), least=3)


@pytest.mark.parametrize("mode", ["constant", "reflect", "edge"])
def test_pad(mode: str) -> None:
    model = one_node("Pad", [normal(4, 5, 6), integers(0, 0, 1, 0, 0, 2)], (1,), mode=mode)
    check_strategies(*model, least=2)


def test_pad_of_some_axes_with_a_value() -> None:
    inputs = [normal(4, 5, 6), integers(1, -1), np.float32(3), integers(-2)]
    check_strategies(*one_node("Pad", inputs, (1, 2, 3)), least=2)


@pytest.mark.parametrize("upper", [0, 1])
@pytest.mark.parametrize("diagonal", [None, -2, 1])
def test_triangle(diagonal: int | None, upper: int) -> None:
    inputs = [normal(4, 6, 5)] + ([] if diagonal is None else [np.array(diagonal, np.int64)])
    check_strategies(*one_node("Trilu", inputs, (1,), upper=upper), least=3)
