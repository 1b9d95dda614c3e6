"""Reductions along axes, and where the extremes are."""

from __future__ import annotations

import numpy as np

from ..dtypes import is_float
from ..mindir.graph import TensorType
from .arguments import axis_of, dtype_of, integer, integers, number
from .builder import Builder, Tensor, Value
from .math import floating, result_dtype, where, wide_integers
from .registry import Lower, lowers
from .shape import dims

_INT64 = np.dtype(np.int64)
_REDUCE = {"ReduceMean": "ReduceMean", "ReduceMax": "ReduceMax", "ReduceMin": "ReduceMin", "ReduceProd": "ReduceProd",
           "LogSumExp": "ReduceLogSumExp"}


def reduced(b: Builder, op_type: str, x: Tensor, axis: Value, keep_dims: Value) -> Tensor:
    """A reduction along axes: None or () means all of them; a run-time tensor of axes works too."""
    if op_type in ("ReduceMax", "ReduceMin") and wide_integers(x.dtype) and not isinstance(axis, Tensor):
        return _extreme_of_wide(b, op_type.replace("Reduce", "Arg"), x, integers(axis, "the axis"), bool(keep_dims))
    axes = b.cast(axis, _INT64) if isinstance(axis, Tensor) else integers(axis, "the axis")
    result: Tensor = b.op(op_type, x, *([axes] if axes else []), keepdims=int(bool(keep_dims)))
    return result


def _extreme_of_wide(b: Builder, op_type: str, x: Tensor, axes: tuple[int, ...], keep: bool) -> Tensor:
    """The extreme along axes, or of all elements, by where it is (see wide_integers)."""
    if not axes:
        found = _extreme_of_wide(b, op_type, b.op("Reshape", x, (-1,)), (0,), False)
        if keep:
            found = b.op("Reshape", found, b.op("Expand", np.ones((), np.int64), b.op("Shape", b.op("Shape", x))))
        return found
    if x.shape is not None:
        axes = tuple(axis_of(axis, x.rank) for axis in axes)
    for axis in axes:
        x = b.op("GatherElements", x, b.op(op_type, x, axis=axis, keepdims=1), axis=axis)
    result: Tensor = x if keep else b.op("Squeeze", x, axes)
    return result


def _reduce(op_type: str) -> Lower:
    def lower(b: Builder, x: Value, axis: Value = (), keep_dims: Value = False) -> Value:
        return reduced(b, op_type, b.tensor(x), axis, keep_dims)

    return lower


for _primitive, _op_type in _REDUCE.items():
    lowers(_primitive)(_reduce(_op_type))


@lowers("ReduceSum")
def reduce_sum(b: Builder, x: Value, axis: Value = (), keep_dims: Value = False, skip_mode: Value = False) -> Value:
    """The sum along axes; with skip_mode no axis means no reduction."""
    x = b.tensor(x)
    if skip_mode and not isinstance(axis, Tensor) and not integers(axis, "the axis"):
        return x
    return reduced(b, "ReduceSum", b.cast(x, result_dtype(b, x)), axis, keep_dims)


@lowers("ReduceAll", "ReduceAny", "Any", "AnyExt")
def reduce_all(b: Builder, x: Value, axis: Value = (), keep_dims: Value = False) -> Value:
    """Whether all, or any, elements along axes are true."""
    op_type = "ReduceMin" if b.node and b.node.primitive == "ReduceAll" else "ReduceMax"
    truth = b.cast(b.tensor(x), np.dtype(np.bool_))
    return reduced(b, op_type, truth, axis, keep_dims)


@lowers("SumExt", "MeanExt", "ProdExt")
def reduce_ext(b: Builder, input: Value, dim: Value = None, keepdim: Value = False, dtype: Value = None) -> Value:
    """Sum, mean or product along dim, in the dtype asked for or recorded."""
    op_type = {"SumExt": "ReduceSum", "MeanExt": "ReduceMean"}.get(b.node.primitive if b.node else "", "ReduceProd")
    x = b.tensor(input)
    return reduced(b, op_type, b.cast(x, dtype_of(dtype, result_dtype(b, x))), dim, keepdim)


@lowers("Nansum")
def nan_sum(b: Builder, input: Value, dim: Value = None, keepdim: Value = False, dtype: Value = None) -> Value:
    """The sum along dim of what is a number."""
    x = b.tensor(input)
    numbers = where(b, b.op("IsNaN", x), 0, x, x.dtype) if is_float(x.dtype) else x
    return reduced(b, "ReduceSum", b.cast(numbers, dtype_of(dtype, result_dtype(b, x))), dim, keepdim)


@lowers("L2Loss")
def l2_loss(b: Builder, x: Value) -> Value:
    """Half the sum of squares."""
    return b.op("Mul", reduced(b, "ReduceSumSquare", b.tensor(x), (), False), 0.5)


@lowers("SquareSumAll")
def square_sums(b: Builder, x: Value, y: Value) -> Value:
    """The sums of squares of both."""
    return tuple(reduced(b, "ReduceSumSquare", b.tensor(value), (), False) for value in (x, y))


@lowers("CountNonZero")
def count_non_zero(b: Builder, input: Value, dim: Value = None) -> Value:
    """How many elements along dim are not 0."""
    return reduced(b, "ReduceSum", b.cast(b.cast(b.tensor(input), np.dtype(np.bool_)), _INT64), dim, False)


@lowers("Max", "Min")
def extreme(b: Builder, input: Value) -> Value:
    """The largest or smallest of all elements."""
    return reduced(b, "ReduceMax" if b.node and b.node.primitive == "Max" else "ReduceMin", b.tensor(input), (), False)


@lowers("Argmax", "Argmin", "ArgMaxExt", "ArgMinExt")
def arg_extreme(b: Builder, x: Value, axis: Value = -1, keepdim: Value = False, *, output_type: Value = None) -> Value:
    """Where the largest or smallest element along an axis is, the first of equals; None: among all.

    The third argument is a type id for Argmax and Argmin, which never keep the axis.
    """
    primitive = b.node.primitive if b.node else "Argmax"
    keep = primitive.endswith("Ext") and bool(keepdim)
    return _arg(b, "ArgMin" if "in" in primitive else "ArgMax", b.tensor(x), axis, keep)


def _arg(b: Builder, op_type: str, x: Tensor, axis: Value, keep: Value) -> Tensor:
    if axis is None:
        x, axis = b.op("Reshape", x, (-1,)), 0
    result: Tensor = b.op(op_type, x, axis=integer(axis, "the axis"), keepdims=int(bool(keep)))
    return result


@lowers("ArgMaxWithValue", "ArgMinWithValue")
def arg_with_value(b: Builder, input: Value, axis: Value = 0, keep_dims: Value = False) -> Value:
    """(where the extreme along an axis is, the extreme)."""
    side = "Max" if b.node and b.node.primitive == "ArgMaxWithValue" else "Min"
    x = b.tensor(input)
    return _arg(b, f"Arg{side}", x, axis, keep_dims), reduced(b, f"Reduce{side}", x, axis, keep_dims)


@lowers("MaxDim", "MinDim")
def extreme_with_index(b: Builder, input: Value, dim: Value, keepdim: Value = False) -> Value:
    """(the extreme along dim, where it is)."""
    side = "Max" if b.node and b.node.primitive == "MaxDim" else "Min"
    x = b.tensor(input)
    return reduced(b, f"Reduce{side}", x, dim, keepdim), _arg(b, f"Arg{side}", x, dim, keepdim)


def variance(b: Builder, x: Tensor, axis: Value, correction: float, keep: Value) -> tuple[Tensor, Tensor]:
    """Variance and mean along axes; the sum of squares is divided by count - correction."""
    axes = integers(axis, "the axis")
    gap = b.op("Sub", x, reduced(b, "ReduceMean", x, axes, True))
    power = reduced(b, "ReduceSumSquare", gap, axes, keep)
    count = b.cast(_count(b, x, axes), x.dtype)
    mean = reduced(b, "ReduceMean", x, axes, keep)
    return b.op("Div", power, b.op("Sub", count, float(correction)) if correction else count), mean


def _count(b: Builder, x: Tensor, axes: tuple[int, ...]) -> Tensor:
    """How many elements go into one result."""
    if x.shape is None:
        sizes = b.op("Shape", x)
        return reduced(b, "ReduceProd", b.op("Gather", sizes, axes) if axes else sizes, (), False)
    sizes = [dims(b, x)[axis] for axis in axes or range(x.rank)]
    if all(isinstance(size, int) for size in sizes):
        return b.tensor(int(np.prod(sizes)))
    return reduced(b, "ReduceProd", b.ints(sizes), (), False)


@lowers("Var", "Std", "VarMean", "StdMean")
def var(b: Builder, input: Value, dim: Value = None, correction: Value = 1, keepdim: Value = False) -> Value:
    """Variance or deviation along dim, with the mean where the primitive gives it."""
    primitive = b.node.primitive if b.node else "Var"
    spread, mean = variance(b, floating(b, input), dim, number(correction, "correction"), keepdim)
    spread = b.op("Sqrt", spread) if primitive.startswith("Std") else spread
    return (spread, mean) if primitive.endswith("Mean") else spread


@lowers("ReduceStd")
def reduce_std(b: Builder, x: Value, axis: Value = (), unbiased: Value = True, keep_dims: Value = False) -> Value:
    """(deviation, mean) along axes."""
    spread, mean = variance(b, b.tensor(x), axis, 1 if unbiased else 0, keep_dims)
    return b.op("Sqrt", spread), mean


@lowers("LpNorm")
def lp_norm(b: Builder, x: Value, *, axis: Value = (), p: int = 2, keep_dims: bool = False) -> Value:
    """The p-norm along axes."""
    return norm(b, b.tensor(x), float(p), axis, keep_dims)


@lowers("EuclideanNorm")
def euclidean_norm(b: Builder, x: Value, axes: Value = (), *, keep_dims: bool = False) -> Value:
    """The root of the sum of squares along axes."""
    return reduced(b, "ReduceL2", b.tensor(x), axes, keep_dims)


@lowers("LpNormV2")
def lp_norm_v2(b: Builder, input: Value, p: Value = 2, dim: Value = None, keepdim: Value = False,
               epsilon: Value = 0.0) -> Value:
    """The p-norm along dim."""
    return norm(b, b.tensor(input), float(number(p, "p")), dim, keepdim)


@lowers("LinalgVectorNorm", "Norm")
def vector_norm(b: Builder, x: Value, ord: Value = 2.0, dim: Value = None, keepdim: Value = False,
                dtype: Value = None) -> Value:
    """The ord-norm along dim."""
    x = floating(b, x)
    order = 2.0 if ord is None else float(number(ord, "the order"))
    return norm(b, b.cast(x, dtype_of(dtype, x.dtype)), order, dim, keepdim)


def norm(b: Builder, x: Tensor, order: float, axis: Value, keep: Value) -> Tensor:
    """(sum of |x| ** order) ** (1 / order), and its limits."""
    if order in (1.0, 2.0):
        return reduced(b, f"ReduceL{int(order)}", x, axis, keep)
    size = b.op("Abs", x)
    if np.isinf(order):
        return reduced(b, "ReduceMax" if order > 0 else "ReduceMin", size, axis, keep)
    if order == 0:
        return reduced(b, "ReduceSum", b.op("Sign", size), axis, keep)
    powers = reduced(b, "ReduceSum", b.op("Pow", size, order), axis, keep)
    result: Tensor = b.op("Pow", powers, 1 / order, type=TensorType(x.dtype, None))
    return result


@lowers("Cdist")
def pairwise_distance(b: Builder, x1: Value, x2: Value, p: Value = 2.0) -> Value:
    """The p-norms of the differences of all pairs of rows."""
    gap = b.op("Sub", b.op("Unsqueeze", b.tensor(x1), (-2,)), b.op("Unsqueeze", b.tensor(x2), (-3,)))
    return norm(b, gap, float(number(p, "p")), (-1,), False)
