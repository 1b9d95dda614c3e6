"""Parts of arrays: cutting them into rounds and parts, and putting parts together."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from ..arrays import Array as Array
from ..collective_call import Call, Reduction

REDUCERS: dict[Reduction, np.ufunc] = {
    Reduction.SUM: np.add,
    Reduction.MAX: np.maximum,
    Reduction.MIN: np.minimum,
    Reduction.PROD: np.multiply,
}


def flat(x: Array) -> Array:
    """A one-dimensional view of a C-contiguous array."""
    if not x.flags.c_contiguous:
        raise ValueError(
            f"collectives take C-contiguous arrays, {x.dtype}{x.shape} has strides {x.strides}"
        )
    return x.reshape(-1)


def spans(size: int, step: int) -> Iterator[tuple[int, int]]:
    """The rounds for `size` elements, `step` at a time; an empty array takes one round."""
    for start in range(0, max(size, 1), step):
        yield start, min(start + step, size)


def fold(reducer: np.ufunc, parts: Sequence[Array], out: Array) -> None:
    """Reduce `parts` (two or more) into `out`, from left to right."""
    reducer(parts[0], parts[1], out=out)
    for part in parts[2:]:
        reducer(out, part, out=out)


def split(x: Array, n: int) -> Array:
    """The n equal parts of a C-contiguous array, as rows."""
    if x.size % n:
        raise ValueError(f"{x.dtype}{x.shape} cannot be split evenly among {n} ranks")
    return flat(x).reshape(n, x.size // n)


def as_bytes(x: Array) -> NDArray[np.uint8]:
    """The bytes of a C-contiguous array."""
    return flat(x).view(np.uint8)


def expect_parts(call: Call, whole: Array, part: Array, n: int) -> None:
    """Raise ValueError unless `whole` is `n` times `part`, with the same dtype."""
    if whole.nbytes != n * part.nbytes or whole.dtype != part.dtype:
        raise ValueError(
            f"{call.kind.value} of {n} ranks pairs {part.dtype}{part.shape} with {n} times as "
            f"much, got {whole.dtype}{whole.shape}"
        )


def copy_all(inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
    """Carry out any collective of one member."""
    for x, out in zip(inputs, outputs, strict=True):
        if out is not x:
            out[...] = x
