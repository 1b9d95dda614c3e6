"""Cutting arrays into rounds and parts, and putting parts together."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from .base import Array, Reduction

REDUCERS: dict[Reduction, np.ufunc] = {
    Reduction.SUM: np.add,
    Reduction.MAX: np.maximum,
    Reduction.MIN: np.minimum,
    Reduction.PROD: np.multiply,
}


def flat(x: Array) -> Array:
    """A one-dimensional view of a C-contiguous array."""
    if not x.flags.c_contiguous:
        raise ValueError(f"collectives take C-contiguous arrays, {x.dtype}{x.shape} has strides {x.strides}")
    return x.reshape(-1)


def spans(size: int, step: int) -> Iterator[tuple[int, int]]:
    """The rounds for `size` elements, `step` at a time; nothing takes one round too."""
    for start in range(0, max(size, 1), step):
        yield start, min(start + step, size)


def fold(reducer: np.ufunc, parts: Sequence[Array], out: Array) -> None:
    """Reduce `parts` (two or more) into `out`, from left to right."""
    reducer(parts[0], parts[1], out)
    for part in parts[2:]:
        reducer(out, part, out)


def split(x: Array, n: int) -> Array:
    """The n equal parts of a C-contiguous array, as rows."""
    if x.size % n:
        raise ValueError(f"{x.dtype}{x.shape} cannot be split evenly among {n} ranks")
    return flat(x).reshape(n, x.size // n)
