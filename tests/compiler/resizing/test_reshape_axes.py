"""Axes of a Reshape: which shapes keep its meaning, and which take it away."""

from __future__ import annotations

import pytest

from rankmesh.compiler.resizing.reshape_axes import contradiction

pytestmark = pytest.mark.pure

FITS = [
    ((4, 8, 8), (4, 64), (2, 8, 8), (2, 64)),  # the batch
    ((4, 16, 64), (64, 64), (2, 16, 64), (32, 64)),  # the batch, into rows
    ((4, 16, 64), (64, 64), (4, 8, 64), (32, 64)),
    ((64, 64), (4, 16, 64), (32, 64), (4, 8, 64)),  # 64 tokens as 4 of 16, or of 8
    ((1, 64), (64,), (2, 64), (128,)),
    ((1, 64), (1, 1, 64), (2, 64), (2, 1, 64)),
    ((1, 1, 64), (1, 64), (1, 3, 64), (1, 192)),  # the second 1 goes into 64
    ((1, 32, 8, 8), (1, 8, 256), (1, 32, 16, 8), (1, 8, 512)),  # groups of channels
    ((16, 1, 64), (16, 8, 8), (20, 1, 64), (20, 8, 8)),  # steps, with heads of the width
    ((16, 1, 64), (16, 8, 8), (16, 2, 64), (16, 16, 8)),
    ((4, 6), (24,), (6, 4), (24,)),  # as exported from here on
    ((4, 64), (4, 64), (0, 64), (0, 64)),
]
MISFITS = [
    ((4, 64), (4, 16, 4), (2, 64), (4, 16, 2), 0),  # -1 takes what the batch lost
    ((4, 64), (4, 16, 4), (8, 64), (4, 16, 8), 0),
    ((4, 64), (4, 16, 4), (0, 64), (4, 16, 0), 0),
    ((4, 8, 8), (4, 64), (4, 16, 8), (8, 64), 0),  # a larger image becomes a larger batch
    ((1, 64), (1, 8, 8), (2, 64), (1, 8, 16), 0),
    ((1, 64), (8, 8), (2, 64), (8, 16), 0),
    ((1, 1, 64), (1, 64), (3, 1, 64), (1, 192), 0),
    ((1, 64), (1, 1, 64), (2, 64), (1, 1, 128), 0),
    ((1, 32, 8, 8), (8, 256), (2, 32, 8, 8), (8, 512), 0),
    ((2, 12, 8), (2, 12, 2, 4), (2, 6, 8), (2, 12, 2, 4), 1),  # fewer elements than it needs
]


@pytest.mark.parametrize(("source", "target", "new", "result"), FITS)
def test_axes_that_follow(source: tuple, target: tuple, new: tuple, result: tuple):
    assert contradiction((source, target), (new, result)) is None


@pytest.mark.parametrize(("source", "target", "new", "result", "axis"), MISFITS)
def test_axes_that_do_not(source: tuple, target: tuple, new: tuple, result: tuple, axis: int):
    found = contradiction((source, target), (new, result))
    assert found is not None and found[0] == axis
