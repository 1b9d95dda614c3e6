"""Channels at the end, as networks for other devices have them (MindSpore itself refuses them on a
CPU).
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from primitives import check

RNG = np.random.default_rng(3)
X = RNG.standard_normal((2, 5, 6, 3)).astype(np.float32)


def windows(x: np.ndarray, size: int, step: int) -> np.ndarray:
    """[batch, rows, columns, channels, size, size]."""
    found = np.lib.stride_tricks.sliding_window_view(x, (size, size), axis=(1, 2))
    return found[:, ::step, ::step]


@pytest.mark.parametrize("dynamic", [False, True])
def test_convolution(tmp_path: Path, dynamic: bool) -> None:
    w = RNG.standard_normal((4, 3, 3, 3)).astype(
        np.float32
    )  # MindSpore's NHWC weights are [out, height, width, in]
    expected = np.einsum("nhwcij,oijc->nhwo", windows(X, 3, 2), w).astype(np.float32)
    check(
        tmp_path,
        "Conv2D",
        [X, w],
        expected,
        dynamic,
        kernel_size=(3, 3),
        stride=(1, 2, 2, 1),
        format="NHWC",
        pad_mode="valid",
        pad_list=(0, 0, 0, 0),
    )


def test_pooling(tmp_path: Path) -> None:
    largest, mean = windows(X, 2, 2).max((-2, -1)), windows(X, 2, 2).mean((-2, -1))
    check(
        tmp_path,
        "MaxPool",
        [X],
        largest,
        kernel_size=(1, 2, 2, 1),
        strides=(1, 2, 2, 1),
        pad_mode="VALID",
        format="NHWC",
    )
    check(tmp_path, "AvgPool", [X, (2, 2), (2, 2), 2, 1], mean)
