"""Shapes in .ms files: as MindIR's primitives, whose numbers may be tensors here."""

from __future__ import annotations

import numpy as np

from ..builder import INT64, Builder, OnnxTensor, Value, integers, lowers, reshape
from .layout import permuted


@lowers("Lite.Reshape")
def reshaped(b: Builder, x: Value, shape: Value) -> Value:
    """x in another shape, which may be known at run time only; 0 keeps a size of x."""
    if isinstance(shape, OnnxTensor):
        return b.op("Reshape", b.tensor(x), b.cast(shape, INT64))
    tensor, sizes = b.tensor(x), integers(shape, "the shape")
    if 0 in sizes and tensor.shape is not None:
        pairs = enumerate(sizes)
        own = tensor.shape
        sizes = tuple(own[at] if not size and at < len(own) else size for at, size in pairs)
    if sizes.count(-1) <= 1:
        return reshape(b, tensor, sizes)
    return b.op("Reshape", tensor, integers(shape, "the shape"))


@lowers("Lite.Transpose")
def transposed(b: Builder, x: Value, order: Value = ()) -> Value:
    """The axes in another order; without one, in reverse."""
    axes = list(integers(order, "the order of axes"))
    if isinstance(x, np.ndarray):
        return x.transpose(axes or None)
    axes = axes or list(range(x.rank))[::-1]
    return permuted(b, x, [axis % len(axes) for axis in axes])
