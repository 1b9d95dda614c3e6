"""Every strategy of Concat and Split gives what the whole node gives."""

from __future__ import annotations

import numpy as np
import pytest
from slicing import check_strategies, one_node

DRAW = np.random.default_rng(13)


def normal(*shape: int) -> np.ndarray:
    return DRAW.standard_normal(shape).astype(np.float32)


def integers(*values: int) -> np.ndarray:
    return np.array(values, np.int64)


@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize("lengths", [(6, 6), (6, 3), (4, 8, 12), (5, 7), (1, 5)])
def test_concat(axis: int, lengths: tuple[int, ...]) -> None:
    shapes = [[4, 5, 6] for _ in lengths]
    for shape, length in zip(shapes, lengths, strict=True):
        shape[axis] = length
    check_strategies(*one_node("Concat", [normal(*one) for one in shapes], axis=axis), least=2)


@pytest.mark.parametrize("lengths", [(6, 6), (6, 3), (8, 2, 2), (5, 7)])
def test_split(lengths: tuple[int, ...]) -> None:
    inputs = [normal(4, sum(lengths), 3), integers(*lengths)]
    model = one_node("Split", inputs, (1,), outputs=len(lengths), axis=1)
    check_strategies(*model, ranks=(2, 3), least=2)


def test_split_in_equal_parts() -> None:
    model = one_node("Split", [normal(4, 12)], outputs=3, axis=-1, num_outputs=3)
    check_strategies(*model, least=2)
    uneven = one_node("Split", [normal(4, 11)], outputs=3, axis=-1, num_outputs=3)
    check_strategies(*uneven, least=1)


def test_split_along_an_axis_of_open_size() -> None:
    model = one_node("Split", [normal(6, 8)], outputs=2, axis=1, num_outputs=2, open_axes={0: [0]})
    check_strategies(*model, least=1)
