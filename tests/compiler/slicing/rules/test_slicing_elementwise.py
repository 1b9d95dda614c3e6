"""Every strategy of elementwise operators gives what the whole node gives."""

from __future__ import annotations

import numpy as np
import pytest
from slicing import check_strategies, one_node

DRAW = np.random.default_rng(11)


def normal(*shape: int) -> np.ndarray:
    return DRAW.standard_normal(shape).astype(np.float32)


def integers(*values: int) -> np.ndarray:
    return np.array(values, np.int64)


@pytest.mark.parametrize("operator", ["Neg", "Erf", "Sigmoid", "HardSwish", "Identity", "Gelu"])
def test_unary(operator: str) -> None:
    check_strategies(*one_node(operator, [normal(4, 5, 6)]), least=3)


@pytest.mark.parametrize("operator", ["Add", "Sub", "Mul", "Div", "Max", "Pow", "PRelu"])
@pytest.mark.parametrize("shapes", [((4, 5), (4, 5)), ((4, 5), (5,)), ((4, 1, 5), (1, 6, 5))])
def test_binary(operator: str, shapes: tuple[tuple[int, ...], ...]) -> None:
    if operator == "PRelu" and shapes[0] == (4, 1, 5):
        shapes = ((4, 6, 5), (6, 1))
    inputs = [np.abs(normal(*shape)) + 1 for shape in shapes]
    check_strategies(*one_node(operator, inputs), ranks=(2, 3), least=2)


@pytest.mark.parametrize("operator", ["Sum", "Mean", "Min"])
def test_several(operator: str) -> None:
    check_strategies(*one_node(operator, [normal(4, 5), normal(5), normal(1, 1)]), least=2)


@pytest.mark.parametrize("shape", [(), (1,), (4, 5)])
def test_where(shape: tuple[int, ...]) -> None:
    inputs = [DRAW.random((4, 5)) < 0.5, normal(4, 5), np.full(shape, -np.inf, np.float32)]
    check_strategies(*one_node("Where", inputs, (2,)), least=2)


@pytest.mark.parametrize(("before", "after"), [("f4", "f2"), ("f4", "i8"), ("i8", "f4")])
def test_cast(before: str, after: str) -> None:
    codes = {"f2": 10, "i8": 7, "f4": 1}
    model = one_node("Cast", [(normal(4, 5) * 9).astype(before)], to=codes[after])
    check_strategies(*model, least=2)


@pytest.mark.parametrize("operator", ["BitwiseAnd", "Mod", "Equal"])
def test_integers(operator: str) -> None:
    inputs = [DRAW.integers(1, 9, (400, 500)), DRAW.integers(1, 9, 500)]
    check_strategies(*one_node(operator, inputs), ranks=(3,), least=2)


@pytest.mark.parametrize("value", [np.inf, -np.inf, np.nan, 2.0])
def test_products_with_infinity(value: float) -> None:
    weight = np.array([1, value, 3, 0, 5], np.float32)
    check_strategies(*one_node("Mul", [np.abs(normal(4, 5)), weight], (1,)), least=2)


def test_clip_and_dropout() -> None:
    low, high = np.float32(-0.5), np.float32(0.5)
    check_strategies(*one_node("Clip", [normal(4, 5), low, high], (1, 2)), least=2)
    check_strategies(*one_node("Clip", [normal(4, 5), None, high], (2,)), least=2)
    check_strategies(*one_node("Dropout", [normal(4, 5)], outputs=2), least=2)
    check_strategies(*one_node("Dropout", [normal(4, 5), high], (1,)), least=2)


def test_open_dimensions_broadcast() -> None:
    model = one_node("Add", [normal(3, 5, 6), normal(5, 1)], open_axes={0: (0, 1), 1: (0,)})
    check_strategies(*model, least=1)
