"""Diagonals of matrices against numpy."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from primitives import Fixed, check

RNG = np.random.default_rng(11)
both = pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])


@both
@pytest.mark.parametrize("k", [-2, -1, 0, 1, 3])
@pytest.mark.parametrize("shape", [(3, 4), (2, 4, 3)])
def test_one_diagonal_of_each_matrix(
    tmp_path: Path, shape: tuple[int, ...], k: int, dynamic: bool
) -> None:
    x = RNG.integers(-9, 9, shape).astype(np.int32)
    expected = np.diagonal(x, k, -2, -1).copy()
    arguments = [x, Fixed(np.array(k, np.int32)), Fixed(np.array(0, np.int32))]
    check(tmp_path, "MatrixDiagPartV3", arguments, expected, dynamic=dynamic, align="RIGHT_LEFT")


def test_several_diagonals_are_refused(tmp_path: Path) -> None:
    x = np.zeros((3, 3), np.float32)
    with pytest.raises(
        Exception, match=r"several diagonals at once \(\[0, 1\]\) are not supported"
    ):
        check(
            tmp_path,
            "MatrixDiagPartV3",
            [x, Fixed(np.array([0, 1], np.int32)), Fixed(np.float32(0))],
            x,
        )
