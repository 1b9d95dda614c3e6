"""Quantised numbers of .ms files: floats from them, and back.

Where both sides of an operator are quantised, onnxruntime computes it with integers: it takes
DequantizeLinear before and QuantizeLinear behind an operator for that. Where weights alone are
quantised, it would round the activations too: these weights become floats by arithmetic.
"""

from __future__ import annotations

import numpy as np

from ...element_types.dtypes import FLOAT32, limits, to_type_id
from ...element_types.value_types import TensorType
from ..builder import Builder, Value, axis_of, lowers, where


@lowers("Lite.Dequantize")
def dequantise(
    b: Builder, x: Value, scale: Value, zero: Value, offset: Value, *, axis: int, exact: bool
) -> Value:
    """(x - zero) * scale + offset, of each channel along an axis or of all; `exact` for weights of
    an operator that computes with floats.
    """
    tensor = b.tensor(x)
    low, high = limits(tensor.dtype)
    fits = tensor.dtype.itemsize < 4 and low <= np.min(zero) and np.max(zero) <= high
    if fits and not exact:
        point = np.asarray(zero).astype(tensor.dtype)
        kind = TensorType(FLOAT32, tensor.shape)
        y = b.op("DequantizeLinear", tensor, scale, point, axis=axis, type=kind)
    else:
        shift = _along(b, np.asarray(zero).astype(np.float32), tensor.rank, axis)
        y = b.op("Sub", b.cast(tensor, FLOAT32), shift)
        y = b.op("Mul", y, _along(b, scale, tensor.rank, axis))
    return b.op("Add", y, _along(b, offset, tensor.rank, axis)) if np.any(offset) else y


def _along(b: Builder, values: Value, rank: int, axis: int) -> Value:
    """A number for each channel in a shape that broadcasts along its axis."""
    if not np.ndim(values):
        return values
    return np.reshape(values, (-1,) + (1,) * (rank - axis_of(axis, rank) - 1))


@lowers("Lite.Cluster")
def clustered(b: Builder, x: Value, clusters: Value) -> Value:
    """The cluster of each number, the first for -128."""
    index = b.op("Add", b.cast(x, np.dtype(np.int32)), np.asarray(128, np.int32))
    return b.op("Gather", b.tensor(clusters), index, axis=0)


@lowers("Lite.Quantize")
def quantise(b: Builder, x: Value, scale: Value, zero: Value) -> Value:
    """x / scale + zero, rounded and held within the recorded dtype."""
    kind = b.result_type
    assert isinstance(kind, TensorType)
    low, high = limits(kind.dtype)
    if not low <= np.min(zero) <= high:
        raise ValueError(f"the zero point {zero} lies outside of {low} to {high} of {kind.dtype}")
    point = np.asarray(zero).astype(kind.dtype)
    return b.op("QuantizeLinear", b.tensor(x), scale, point, type=kind)


@lowers("Lite.DynamicQuant")
def rounded(
    b: Builder,
    x: Value,
    *,
    symmetric: bool,
    dst_type: int,
    activation_channel: bool,
    prefer_axis: int,
    prefer_axes: Value,
) -> Value:
    """x as floats on the steps that int8 numbers have between its extremes: of all elements, or of
    each channel along the preferred axes.
    """
    if dst_type != to_type_id(np.dtype(np.int8)):
        raise ValueError(f"quantisation to the type {dst_type} is not supported, expected int8")
    tensor = b.tensor(x)
    channels = prefer_axes or (prefer_axis,)
    kept = {axis_of(axis, tensor.rank) for axis in channels} if activation_channel else set()
    axes = tuple(axis for axis in range(tensor.rank) if axis not in kept)
    low, high = (b.op(f"Reduce{word}", tensor, axes, keepdims=1) for word in ("Min", "Max"))
    if symmetric:
        high = b.op("Max", b.op("Abs", low), b.op("Abs", high))
        low = b.op("Neg", high)
    width = b.op("Sub", high, low)
    width = where(b, b.op("Greater", width, 0.0), width, 1.0, tensor.dtype)
    step = b.op("Div", width, 255.0)
    zero: Value = 0.0
    if not symmetric:
        zero = b.op("Round", b.op("Sub", -128.0, b.op("Div", low, step)))
    number = b.op("Add", b.op("Round", b.op("Div", tensor, step)), zero)
    return b.op("Mul", b.op("Sub", b.op("Clip", number, -128.0, 127.0), zero), step)
