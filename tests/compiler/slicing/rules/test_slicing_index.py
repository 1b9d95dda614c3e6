"""Every strategy of Gather and OneHot gives what the whole node gives."""

from __future__ import annotations

import numpy as np
import pytest
from slicing import check_strategies, one_node

DRAW = np.random.default_rng(14)


def normal(*shape: int) -> np.ndarray:
    return DRAW.standard_normal(shape).astype(np.float32)


def integers(*values: int) -> np.ndarray:
    return np.array(values, np.int64)


@pytest.mark.parametrize("shape", [(), (3,), (4, 5)])
@pytest.mark.parametrize(("axis", "weights"), [(0, (0,)), (1, ()), (-1, (0,))])
def test_gather(shape: tuple[int, ...], axis: int, weights: tuple[int, ...]) -> None:
    picked = np.asarray(DRAW.integers(-6, 6, shape))
    model = one_node("Gather", [normal(6, 7, 8), picked], weights, axis=axis)
    check_strategies(*model, ranks=(2, 3), least=3)


def test_gather_of_integers_keeps_its_rows() -> None:
    inputs = [DRAW.integers(0, 9, (70, 1000)), integers(0, 69, -1, -70)]
    check_strategies(*one_node("Gather", inputs, (0,)), least=1)


@pytest.mark.parametrize("kind", [np.int32, np.int64])
def test_every_index_of_an_uneven_vocabulary(kind: type) -> None:
    model = one_node("Gather", [normal(7, 3), np.arange(-7, 7).astype(kind)], (0,))
    check_strategies(*model, least=3)


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_one_hot(axis: int) -> None:
    inputs = [DRAW.integers(0, 5, (400, 200)), integers(5), np.array([0, 1], np.float32)]
    check_strategies(*one_node("OneHot", inputs, (1, 2), axis=axis), ranks=(3,), least=2)
