"""Every strategy of views gives what the whole node gives."""

from __future__ import annotations

import numpy as np
import pytest
from slicing import check_strategies, one_node

DRAW = np.random.default_rng(12)


def normal(*shape: int) -> np.ndarray:
    return DRAW.standard_normal(shape).astype(np.float32)


def integers(*values: int) -> np.ndarray:
    return np.array(values, np.int64)


@pytest.mark.parametrize(
    ("shape", "target", "least"),
    [
        ((4, 6, 8), (24, 8), 2),
        ((4, 6, 8), (4, 6, 4, 2), 3),
        ((4, 6, 8), (0, -1, 2), 2),
        ((4, 6, 8), (0, 0, -1), 3),
        ((4, 6, 8), (-1,), 2),
        ((24, 8), (2, -1, 8), 2),
        ((6, 6), (1, 0, 6), 2),
        ((6, 4, 4), (2, 3, 0, 4), 2),
        ((4, 12), (4, 3, 4), 2),
        ((6, 5), (3, 10), 1),
        ((1, 8, 6), (8, 1, 6), 2),
        ((7, 9), (63, 1), 1),
    ],
)
def test_reshape(shape: tuple[int, ...], target: tuple[int, ...], least: int) -> None:
    model = one_node("Reshape", [normal(*shape), integers(*target)], (1,))
    check_strategies(*model, ranks=(2, 3), least=least)


def test_reshape_that_allows_zero() -> None:
    model = one_node("Reshape", [normal(4, 6), integers(4, 2, 3)], (1,), allowzero=1)
    check_strategies(*model, least=1)
    empty = one_node("Reshape", [normal(4, 0), integers(4, 0, 3)], (1,), allowzero=1)
    check_strategies(*empty, least=1)


@pytest.mark.parametrize("order", [None, (2, 0, 1), (0, 2, 1)])
def test_transpose(order: tuple[int, ...] | None) -> None:
    attributes = {} if order is None else {"perm": order}
    check_strategies(*one_node("Transpose", [normal(4, 5, 6)], **attributes), least=3)


@pytest.mark.parametrize("axis", [0, 1, 2, 3, -1])
def test_flatten(axis: int) -> None:
    check_strategies(*one_node("Flatten", [normal(4, 6, 8)], axis=axis), ranks=(2, 3), least=1)


@pytest.mark.parametrize("axes", [None, (1,), (-1, 1)])
@pytest.mark.parametrize("first", [2, 3, 4])
def test_squeeze(axes: tuple[int, ...] | None, first: int) -> None:
    inputs = [normal(first, 1, 5, 1)] + ([] if axes is None else [integers(*axes)])
    check_strategies(*one_node("Squeeze", inputs, (1,)), ranks=(2, 3), least=1)


@pytest.mark.parametrize("axes", [(0,), (-1, 1), (2, 3)])
def test_unsqueeze(axes: tuple[int, ...]) -> None:
    check_strategies(*one_node("Unsqueeze", [normal(4, 6), integers(*axes)], (1,)), least=2)


@pytest.mark.parametrize(
    ("shape", "target"),
    [((4, 1, 6), (4, 5, 6)), ((1, 6), (4, 5, 1)), ((5, 6), (1,)), ((1,), (4, 6)), ((4, 1), (1, 6))],
)
def test_expand(shape: tuple[int, ...], target: tuple[int, ...]) -> None:
    model = one_node("Expand", [normal(*shape), integers(*target)], (1,))
    check_strategies(*model, ranks=(2, 3), least=2)


def test_constant_of_shape() -> None:
    check_strategies(*one_node("ConstantOfShape", [integers(4, 5)], (0,)), least=2)


@pytest.mark.parametrize("operator", ["Shape", "Size"])
def test_shape(operator: str) -> None:
    check_strategies(*one_node(operator, [normal(4, 5, 6)]), least=3)


@pytest.mark.parametrize(("start", "end"), [(1, 3), (-2, -1), (0, 9)])
def test_part_of_a_shape(start: int, end: int) -> None:
    check_strategies(*one_node("Shape", [normal(4, 5, 6)], start=start, end=end), least=3)
