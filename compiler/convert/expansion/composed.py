"""Composed operators of ONNX: those that its specification makes of others."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx_ir as ir

from .expander import Expander
from .registry import expands


@expands("Celu")
def celu(e: Expander, x: ir.Value, *, alpha: float = 1.0) -> ir.Value:
    """max(x, 0) + min(alpha (exp(x / alpha) - 1), 0)."""
    nought, scale = e.like(x, 0), e.like(x, alpha)
    power = e.op("Sub", e.op("Exp", e.op("Div", x, scale)), e.like(x, 1))
    negative = e.op("Min", e.op("Mul", power, scale), nought)
    return e.op("Add", e.op("Max", x, nought), negative)


@expands("ThresholdedRelu")
def thresholded_relu(e: Expander, x: ir.Value, *, alpha: float = 1.0) -> ir.Value:
    """x above alpha, else 0."""
    return e.op("Where", e.op("Greater", x, e.like(x, alpha)), x, e.like(x, 0))


@expands("Shrink")
def shrink(e: Expander, x: ir.Value, *, bias: float = 0.0, lambd: float = 0.5) -> ir.Value:
    """0 between -lambd and lambd, else nearer to 0 by bias."""
    below = e.op("Less", x, e.like(x, -lambd))
    above = e.op("Greater", x, e.like(x, lambd))
    high = e.op("Where", above, e.op("Sub", x, e.like(x, bias)), e.like(x, 0))
    return e.op("Where", below, e.op("Add", x, e.like(x, bias)), high)


@expands("Swish")
def swish(e: Expander, x: ir.Value, *, alpha: float = 1.0) -> ir.Value:
    """x sigmoid(alpha x)."""
    return e.op("Mul", x, e.op("Sigmoid", e.op("Mul", x, e.like(x, alpha))))


@expands("CastLike")
def cast_like(e: Expander, x: ir.Value, other: ir.Value, *, saturate: int = 1) -> ir.Value:
    """In the dtype of another value."""
    return e.cast(x, e.dtype(other))


@expands("IsInf")
def is_infinite(
    e: Expander, x: ir.Value, *, detect_negative: int = 1, detect_positive: int = 1
) -> ir.Value:
    """Whether elements are infinite, of either sign or of one."""
    signs = [float("-inf")] * bool(detect_negative) + [float("inf")] * bool(detect_positive)
    found = [e.op("Equal", x, e.like(x, sign)) for sign in signs]
    if not found:
        return e.op("Less", x, x)
    return found[0] if len(found) == 1 else e.op("Or", *found)


@expands("LpNormalization")
def lp_normalization(e: Expander, x: ir.Value, *, axis: int = -1, p: int = 2) -> ir.Value:
    """x, divided by its norm along an axis; zeros stay."""
    norm = e.reduced("ReduceL2" if p == 2 else "ReduceL1", x, [axis])
    nought = e.op("Equal", norm, e.like(x, 0))
    return e.op("Div", x, e.op("Where", nought, e.like(x, 1), norm))


@expands("MeanVarianceNormalization")
def mean_variance(e: Expander, x: ir.Value, *, axes: Sequence[int] = (0, 2, 3)) -> ir.Value:
    """(x - mean) / (deviation + 1e-9)."""
    mean = e.reduced("ReduceMean", x, axes)
    squares = e.reduced("ReduceMean", e.op("Mul", x, x), axes)
    variance = e.op("Sub", squares, e.op("Mul", mean, mean))
    deviation = e.op("Add", e.op("Sqrt", variance), e.like(x, 1e-9))
    return e.op("Div", e.op("Sub", x, mean), deviation)


@expands("ReduceLogSum")
def log_of_sum(
    e: Expander,
    x: ir.Value,
    given: ir.Value | None = None,
    *,
    axes: Sequence[int] | None = None,
    **how: int,
) -> ir.Value:
    """The logarithm of the sum."""
    return e.op("Log", e.op("ReduceSum", x, _axes(e, given, axes), **how))


@expands("ReduceLogSumExp")
def log_of_sum_of_powers(
    e: Expander,
    x: ir.Value,
    given: ir.Value | None = None,
    *,
    axes: Sequence[int] | None = None,
    keepdims: int = 1,
    noop_with_empty_axes: int = 0,
) -> ir.Value:
    """The logarithm of the sum of powers, with the largest exponent taken out."""
    places = axes or range(e.rank(x)) if given is None else e.array(given).tolist()
    most = e.reduced("ReduceMax", x, places)
    total = e.reduced("ReduceSum", e.op("Exp", e.op("Sub", x, most)), places)
    found = e.op("Add", e.op("Log", total), most)
    return found if keepdims else e.op("Squeeze", found, e.constant(list(places)))


def _axes(e: Expander, given: ir.Value | None, axes: Sequence[int] | None) -> ir.Value | None:
    return e.constant(list(axes)) if given is None and axes else given


@expands("Hardmax")
def hardmax(e: Expander, x: ir.Value, *, axis: int = -1) -> ir.Value:
    """1 at the first largest element along an axis, else 0."""
    place = e.op("ArgMax", x, axis=axis, keepdims=0)
    size = e.sizes(x)[axis]
    if size is None:
        raise ValueError("the size of its axis is open: fix it by --inputShape")
    values = e.constant([0, 1], e.dtype(x))
    return e.op("OneHot", place, e.constant(size), values, axis=axis)


@expands("LRN")
def local_response(
    e: Expander,
    x: ir.Value,
    *,
    size: int,
    alpha: float = 1e-4,
    beta: float = 0.75,
    bias: float = 1.0,
) -> ir.Value:
    """x / (bias + alpha / size times the squares of neighbouring channels) ^ beta."""
    channels = e.sizes(x)[1]
    if channels is None or e.rank(x) != 4:
        raise ValueError("only images with a known number of channels")
    before, after = (size - 1) // 2, size // 2
    at = np.arange(channels)
    near = (at[None] >= at[:, None] - before) & (at[None] <= at[:, None] + after)
    kernel = e.constant(near[:, :, None, None], e.dtype(x))
    squares = e.op("Conv", e.op("Mul", x, x), kernel)
    scaled = e.op("Mul", squares, e.like(x, alpha / size))
    total = e.op("Add", scaled, e.like(x, bias))
    return e.op("Div", x, e.op("Pow", total, e.like(x, beta)))


@expands("Compress")
def compress(e: Expander, x: ir.Value, condition: ir.Value, *, axis: int | None = None) -> ir.Value:
    """The slices at which a condition holds."""
    places = e.op("Squeeze", e.op("NonZero", condition), e.constant([0]))
    whole = x if axis is not None else e.op("Reshape", x, e.constant([-1]))
    return e.op("Gather", whole, places, axis=axis or 0)


@expands("LpPool")
def norms(
    e: Expander, x: ir.Value, *, kernel_shape: Sequence[int], p: int = 2, **how: Any
) -> ir.Value:
    """The norms of windows, from the means of powers; padding is 0."""
    power = e.op("Pow", e.op("Abs", x), e.like(x, p))
    mean = e.op("AveragePool", power, kernel_shape=kernel_shape, count_include_pad=1, **how)
    total = e.op("Mul", mean, e.like(x, float(np.prod(kernel_shape))))
    return e.op("Pow", total, e.like(x, 1 / p))


@expands("GlobalLpPool")
def whole_norm(e: Expander, x: ir.Value, *, p: int = 2) -> ir.Value:
    """The norm of all places of an image."""
    power = e.op("Pow", e.op("Abs", x), e.like(x, p))
    total = e.reduced("ReduceSum", power, range(2, e.rank(x)))
    return e.op("Pow", total, e.like(x, 1 / p))
