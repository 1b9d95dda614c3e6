"""Fourier transforms: products with constant matrices of cosines and sines."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from .expander import Expander
from .registry import expands

_AXIS_IS_INPUT = 20
"""The opset since which the axis is an input, by default the last one of places."""
_MOST = 1 << 24  # elements of a matrix


@expands("DFT")
def fourier(
    e: Expander,
    x: ir.Value,
    length: ir.Value | None = None,
    place: ir.Value | None = None,
    *,
    axis: int | None = None,
    inverse: int = 0,
    onesided: int = 0,
) -> ir.Value:
    """The transform along one axis; the last axis has the real and the imaginary part."""
    rank, parts = e.rank(x), e.sizes(x)[-1]
    if place is not None:
        axis = int(e.array(place).reshape(-1)[0])
    if axis is None:
        axis = -2 if e.opset >= _AXIS_IS_INPUT else 1
    axis %= rank
    size = e.sizes(x)[axis]
    if size is None or parts not in (1, 2) or (inverse and onesided) or axis == rank - 1:
        raise ValueError("only transforms of a known size, and none that is inverse and onesided")
    count = size if length is None else int(e.array(length).reshape(-1)[0])
    cosines, sines = _waves(min(size, count), count, bool(onesided))
    real, imaginary = (_part(e, x, at, axis, min(size, count), size) for at in (0, int(parts == 2)))
    found = _turned(e, x, real, imaginary if parts == 2 else None, cosines, sines, bool(inverse))
    if inverse:
        found = [e.op("Div", one, e.like(x, count)) for one in found]
    back = _order(rank - 1, axis, restored=True)
    last = e.constant([-1])
    moved = [e.op("Unsqueeze", e.op("Transpose", one, perm=back), last) for one in found]
    return e.op("Concat", *moved, axis=-1)


def _waves(taken: int, count: int, onesided: bool) -> tuple[np.ndarray, np.ndarray]:
    """[taken, frequencies] cosines and sines of a transform of `count` elements."""
    bins = count // 2 + 1 if onesided else count
    if not 0 < taken * bins <= _MOST:
        raise ValueError(f"a transform of {taken} elements to {bins} is too large for a matrix")
    angles = 2 * np.pi / count * (np.outer(np.arange(taken), np.arange(bins)) % count)
    return np.cos(angles), np.sin(angles)


def _part(e: Expander, x: ir.Value, at: int, axis: int, taken: int, size: int) -> ir.Value:
    """The real or the imaginary part with the axis at the end, and its first elements."""
    one = e.op("Gather", x, e.constant(at), axis=-1)
    moved = e.op("Transpose", one, perm=_order(e.rank(x) - 1, axis, restored=False))
    if taken == size:
        return moved
    return e.op("Slice", moved, e.constant([0]), e.constant([taken]), e.constant([-1]))


def _order(rank: int, axis: int, restored: bool) -> list[int]:
    """The order of axes that moves one to the end, or from there to its place."""
    others = [one for one in range(rank) if one != axis]
    order = [*others, axis]
    return [order.index(one) for one in range(rank)] if restored else order


def _turned(
    e: Expander,
    x: ir.Value,
    real: ir.Value,
    imaginary: ir.Value | None,
    cosines: np.ndarray,
    sines: np.ndarray,
    inverse: bool,
) -> list[ir.Value]:
    """The product of complex numbers with cosines - i sines; of the inverse, with + i sines."""
    dtype = e.dtype(x)
    straight = e.constant(cosines, dtype)
    crossed = e.constant(sines if inverse else -sines, dtype)
    first, second = e.op("MatMul", real, straight), e.op("MatMul", real, crossed)
    if imaginary is None:
        return [first, second]
    less, more = e.op("MatMul", imaginary, crossed), e.op("MatMul", imaginary, straight)
    return [e.op("Sub", first, less), e.op("Add", second, more)]
