"""Every strategy of reductions gives what the whole node gives."""

from __future__ import annotations

import numpy as np
import pytest
from slicing import check_strategies, one_node

DRAW = np.random.default_rng(15)


def normal(*shape: int) -> np.ndarray:
    return DRAW.standard_normal(shape).astype(np.float32)


def integers(*values: int) -> np.ndarray:
    return np.array(values, np.int64)


OPERATORS = ["Sum", "Mean", "Max", "Min", "Prod", "L1", "L2", "SumSquare", "LogSum", "LogSumExp"]


@pytest.mark.parametrize("operator", OPERATORS)
@pytest.mark.parametrize(("axes", "keep"), [(None, 0), ((1,), 1), ((0, -1), 0)])
def test_reduction(operator: str, axes: tuple[int, ...] | None, keep: int) -> None:
    inputs = [np.abs(normal(4, 5, 6)) + 1] + ([] if axes is None else [integers(*axes)])
    model = one_node(f"Reduce{operator}", inputs, (1,), keepdims=keep)
    parts = operator in ("Sum", "Mean", "Max", "L1", "SumSquare")
    check_strategies(*model, ranks=(2, 3), least=3 if parts else 0 if axes is None else 1)


def test_reduction_over_no_axis() -> None:
    model = one_node("ReduceSum", [normal(4, 5), integers()], (1,), noop_with_empty_axes=1)
    check_strategies(*model, least=2)
    check_strategies(*one_node("ReduceSum", [normal(4, 5), integers()], (1,)), least=2)


def test_mean_of_integers_is_whole() -> None:
    inputs = [DRAW.integers(0, 9, (500, 300)), integers(0)]
    check_strategies(*one_node("ReduceMean", inputs, (1,)), ranks=(3,), least=1)


@pytest.mark.parametrize("operator", ["ArgMax", "ArgMin"])
@pytest.mark.parametrize("keep", [0, 1])
@pytest.mark.parametrize("axis", [0, 1, -1])
def test_arguments(operator: str, keep: int, axis: int) -> None:
    model = one_node(operator, [normal(4, 5, 6)], axis=axis, keepdims=keep)
    check_strategies(*model, ranks=(2, 3), least=2)
