"""Tensors that are created: filled ones, ranges, and triangles of others."""

from __future__ import annotations

import numpy as np

from ...element_types import dtypes
from ..mindir.values import MindirValue
from .node_conversion import NodeConversion
from .registry import converts
from .shape import sizes_of


@converts("ConstantOfShape")
def filled(c: NodeConversion, shape: MindirValue, *, value: object = None) -> MindirValue:
    """One number everywhere; 0 by default."""
    number = np.asarray(0, c.type.dtype) if value is None else _array(value)
    if c.open_sizes == 0:
        return c.builder.constant(np.full(c.shape, number.reshape(()), c.type.dtype))
    kind = dtypes.to_type_id(c.type.dtype)
    return c.apply("FillScalar", sizes_of(c, shape, c.rank), number.item(), kind)


def _array(value: object) -> np.ndarray:
    """The tensor of an attribute."""
    return np.asarray(value.numpy())  # type: ignore[attr-defined]


@converts("Trilu")
def triangle(
    c: NodeConversion, x: MindirValue, k: MindirValue | None = None, *, upper: int = 1
) -> MindirValue:
    """The upper or the lower triangle of matrices, from diagonal `k` on."""
    diagonal = 0 if k is None else c.number(k, "k")
    if upper:
        return c.apply("Triu", x, diagonal)
    return c.apply("Tril", x, diagonal=diagonal)


@converts("Tile")
def tile(c: NodeConversion, x: MindirValue, repeats: MindirValue) -> MindirValue:
    """Copies along each axis."""
    if repeats.constant is None:
        return c.apply("Tile", x, sizes_of(c, repeats, x.rank))
    return c.apply("Tile", x, c.numbers(repeats, "repeats"))


@converts("EyeLike")
def eye(c: NodeConversion, x: MindirValue, *, dtype: int = 0, k: int = 0) -> MindirValue:
    """Ones on a diagonal."""
    rows, columns = c.shape
    return c.builder.constant(np.eye(rows, columns, k, c.type.dtype))


@converts("Range")
def numbers_between(
    c: NodeConversion, start: MindirValue, limit: MindirValue, delta: MindirValue
) -> MindirValue:
    """From `start` up to, and without, `limit`."""
    if c.type.dtype.kind != "i":
        raise ValueError("ranges of floats are not supported")
    bounds = [c.scalar(one) for one in (start, limit, delta)]
    return c.apply("Range", *bounds, 1_000_000)
