"""Every strategy of repetition and of depth and space gives what the whole node gives."""

from __future__ import annotations

import numpy as np
import pytest
from slicing import check_strategies, one_node

DRAW = np.random.default_rng(7)


def normal(*shape: int) -> np.ndarray:
    return DRAW.standard_normal(shape).astype(np.float32)


def integers(*values: int) -> np.ndarray:
    return np.array(values, np.int64)


@pytest.mark.parametrize("repeats", [(1, 2, 3), (2, 1, 1), (6, 1, 1)])
@pytest.mark.parametrize("first", [1, 4])
def test_tile(repeats: tuple[int, ...], first: int) -> None:
    model = one_node("Tile", [normal(first, 5, 6), integers(*repeats)], (1,))
    check_strategies(*model, ranks=(2, 3), least=2)


@pytest.mark.parametrize("mode", ["DCR", "CRD"])
def test_depth_to_space(mode: str) -> None:
    model = one_node("DepthToSpace", [normal(4, 16, 4, 4)], blocksize=2, mode=mode)
    check_strategies(*model, least=4)


def test_space_to_depth() -> None:
    check_strategies(*one_node("SpaceToDepth", [normal(4, 5, 8, 8)], blocksize=2), least=4)
