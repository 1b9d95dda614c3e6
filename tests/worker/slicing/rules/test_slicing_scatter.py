"""Every strategy of gathering and scattering by several indices gives the whole result."""

from __future__ import annotations

import numpy as np
import pytest
from slicing import check_strategies, one_node

DRAW = np.random.default_rng(8)


def normal(*shape: int) -> np.ndarray:
    return DRAW.standard_normal(shape).astype(np.float32)


def integers(*values: int) -> np.ndarray:
    return np.array(values, np.int64)


def picked(high: int, *shape: int) -> np.ndarray:
    return DRAW.integers(0, high, shape)


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_gather_elements(axis: int) -> None:
    inputs = [normal(4, 5, 6), picked(4, 4, 5, 6) - 2]
    check_strategies(*one_node("GatherElements", inputs, axis=axis), least=2)


def test_gather_elements_of_other_sizes() -> None:
    check_strategies(*one_node("GatherElements", [normal(4, 5, 6), picked(4, 4, 5, 2)]), least=1)


@pytest.mark.parametrize("reduction", ["none", "add", "max"])
def test_scatter_elements(reduction: str) -> None:
    index = np.argsort(normal(4, 6, 5), axis=1)[:, :2]
    inputs = [normal(4, 6, 5), index, normal(4, 2, 5)]
    model = one_node("ScatterElements", inputs, axis=1, reduction=reduction)
    check_strategies(*model, least=2)


@pytest.mark.parametrize(
    ("batch", "indices", "least"), [(0, (5, 4, 1), 4), (1, (4, 5, 1), 3), (0, (5, 3), 1)]
)
def test_gather_nd(batch: int, indices: tuple[int, ...], least: int) -> None:
    inputs = [normal(4, 5, 6), picked(4, *indices)]
    check_strategies(*one_node("GatherND", inputs, batch_dims=batch), least=least)


@pytest.mark.parametrize("reduction", ["none", "add"])
def test_scatter_nd(reduction: str) -> None:
    inputs = [normal(8, 5, 6), integers(3, 1, 6, 0).reshape(2, 2, 1), normal(2, 2, 5, 6)]
    check_strategies(*one_node("ScatterND", inputs, reduction=reduction), least=2)


def test_tensor_scatter() -> None:
    inputs = [normal(4, 5, 8, 6), normal(4, 5, 2, 6), integers(0, 3, 1, 6)]
    check_strategies(*one_node("TensorScatter", inputs, opset=24), least=3)


def test_reverse_sequence() -> None:
    inputs = [normal(6, 4, 5), integers(1, 3, 6, 2)]
    check_strategies(*one_node("ReverseSequence", inputs, time_axis=0, batch_axis=1), least=2)
