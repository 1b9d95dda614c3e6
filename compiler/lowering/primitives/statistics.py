"""Statistics along axes: variances, deviations and norms."""

from __future__ import annotations

import numpy as np

from ...element_types.value_types import TensorType
from ..builder import (
    Builder,
    OnnxTensor,
    Value,
    dims,
    dtype_of,
    floating,
    integers,
    lowers,
    number,
    product,
)
from .reduce import reduced


def variance(
    b: Builder, x: OnnxTensor, axis: Value, correction: float, keep: Value
) -> tuple[OnnxTensor, OnnxTensor]:
    """Variance and mean along axes; the sum of squares is divided by count - correction."""
    axes = integers(axis, "the axis")
    gap = b.op("Sub", x, reduced(b, "ReduceMean", x, axes, True))
    power = reduced(b, "ReduceSumSquare", gap, axes, keep)
    count = b.cast(_count(b, x, axes), x.dtype)
    mean = reduced(b, "ReduceMean", x, axes, keep)
    divisor = b.op("Sub", count, float(correction)) if correction else count
    return b.op("Div", power, divisor), mean


def _count(b: Builder, x: OnnxTensor, axes: tuple[int, ...]) -> OnnxTensor:
    """How many elements go into one result."""
    if x.shape is None:
        shape = b.op("Shape", x)
        return reduced(b, "ReduceProd", b.op("Gather", shape, axes) if axes else shape, (), False)
    return b.tensor(product(b, tuple(dims(b, x)[axis] for axis in axes or range(x.rank))))


@lowers("Var", root=False, with_mean=False)
@lowers("Std", root=True, with_mean=False)
@lowers("VarMean", root=False, with_mean=True)
@lowers("StdMean", root=True, with_mean=True)
def var(
    b: Builder,
    input: Value,
    dim: Value = None,
    correction: Value = 1,
    keepdim: Value = False,
    *,
    root: bool,
    with_mean: bool,
) -> Value:
    """Variance or deviation along dim, or (that, mean)."""
    spread, mean = variance(b, floating(b, input), dim, number(correction, "correction"), keepdim)
    spread = b.op("Sqrt", spread) if root else spread
    return (spread, mean) if with_mean else spread


@lowers("ReduceStd")
def reduce_std(
    b: Builder, x: Value, axis: Value = (), unbiased: Value = True, keep_dims: Value = False
) -> Value:
    """(deviation, mean) along axes."""
    spread, mean = variance(b, b.tensor(x), axis, 1 if unbiased else 0, keep_dims)
    return b.op("Sqrt", spread), mean


@lowers("LpNorm")
def lp_norm(
    b: Builder, x: Value, *, axis: Value = (), p: int = 2, keep_dims: bool = False
) -> Value:
    """The p-norm along axes."""
    return norm(b, b.tensor(x), float(p), axis, keep_dims)


@lowers("EuclideanNorm")
def euclidean_norm(b: Builder, x: Value, axes: Value = (), *, keep_dims: bool = False) -> Value:
    """The root of the sum of squares along axes."""
    return reduced(b, "ReduceL2", b.tensor(x), axes, keep_dims)


@lowers("LpNormV2")
def lp_norm_v2(
    b: Builder,
    input: Value,
    p: Value = 2,
    dim: Value = None,
    keepdim: Value = False,
    epsilon: Value = 0.0,
) -> Value:
    """The p-norm along dim."""
    return norm(b, b.tensor(input), float(number(p, "p")), dim, keepdim)


@lowers("LinalgVectorNorm", "Norm")
def vector_norm(
    b: Builder,
    x: Value,
    ord: Value = 2.0,
    dim: Value = None,
    keepdim: Value = False,
    dtype: Value = None,
) -> Value:
    """The ord-norm along dim."""
    x = floating(b, x)
    order = 2.0 if ord is None else float(number(ord, "the order"))
    return norm(b, b.cast(x, dtype_of(dtype, x.dtype)), order, dim, keepdim)


def norm(b: Builder, x: OnnxTensor, order: float, axis: Value, keep: Value) -> OnnxTensor:
    """(sum of |x| ** order) ** (1 / order), and its limits."""
    if order in (1.0, 2.0):
        return reduced(b, f"ReduceL{int(order)}", x, axis, keep)
    size = b.op("Abs", x)
    if np.isinf(order):
        return reduced(b, "ReduceMax" if order > 0 else "ReduceMin", size, axis, keep)
    if order == 0:
        return reduced(b, "ReduceSum", b.op("Sign", size), axis, keep)
    powers = reduced(b, "ReduceSum", b.op("Pow", size, order), axis, keep)
    return b.op("Pow", powers, 1 / order, type=TensorType(x.dtype, None))


@lowers("Cdist")
def pairwise_distance(b: Builder, x1: Value, x2: Value, p: Value = 2.0) -> Value:
    """The p-norms of the differences of all pairs of rows."""
    rows, columns = b.op("Unsqueeze", b.tensor(x1), (-2,)), b.op("Unsqueeze", b.tensor(x2), (-3,))
    return norm(b, b.op("Sub", rows, columns), float(number(p, "p")), (-1,), False)
