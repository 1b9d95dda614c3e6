"""Reductions along axes: sums, products, extremes and their indices."""

from __future__ import annotations

import numpy as np

from ...element_types.dtypes import is_float
from ..builder import (
    BOOL,
    INT64,
    Builder,
    OnnxTensor,
    Value,
    axis_of,
    dtype_of,
    has_wrong_extremes,
    integer,
    integers,
    lowers,
    lowers_each,
    result_dtype,
    where,
)

_REDUCE = {
    "ReduceMean": "ReduceMean",
    "ReduceMax": "ReduceMax",
    "ReduceMin": "ReduceMin",
    "ReduceProd": "ReduceProd",
    "Max": "ReduceMax",
    "Min": "ReduceMin",
    "LogSumExp": "ReduceLogSumExp",
}


def reduced(b: Builder, op_type: str, x: OnnxTensor, axis: Value, keep_dims: Value) -> OnnxTensor:
    """A reduction along axes: None or () means all of them; a run-time tensor of axes works too."""
    keep = int(bool(keep_dims))
    if isinstance(axis, OnnxTensor):
        return b.op(op_type, x, b.cast(axis, INT64), keepdims=keep)
    axes = integers(axis, "the axis")
    if op_type in ("ReduceMax", "ReduceMin") and has_wrong_extremes(x.dtype):
        return _extreme_of_wide(b, op_type.replace("Reduce", "Arg"), x, axes, bool(keep))
    return b.op(op_type, x, *([axes] if axes else []), keepdims=keep)


def _extreme_of_wide(
    b: Builder, op_type: str, x: OnnxTensor, axes: tuple[int, ...], keep: bool
) -> OnnxTensor:
    """The extreme along axes, or of all elements, by its index (see has_wrong_extremes)."""
    if not axes:
        found = _extreme_of_wide(b, op_type, b.op("Reshape", x, (-1,)), (0,), False)
        if not keep:
            return found
        ones = b.op("Expand", np.ones((), np.int64), b.op("Shape", b.op("Shape", x)))
        return b.op("Reshape", found, ones)
    if x.shape is not None:
        axes = tuple(axis_of(axis, x.rank) for axis in axes)
    for axis in axes:
        x = b.op("GatherElements", x, b.op(op_type, x, axis=axis, keepdims=1), axis=axis)
    return x if keep else b.op("Squeeze", x, axes)


@lowers_each("op_type", _REDUCE)
def reduce(
    b: Builder, x: Value, axis: Value = (), keep_dims: Value = False, *, op_type: str
) -> Value:
    """A reduction along axes, by default of all elements."""
    return reduced(b, op_type, b.tensor(x), axis, keep_dims)


@lowers("ReduceSum")
def reduce_sum(
    b: Builder, x: Value, axis: Value = (), keep_dims: Value = False, skip_mode: Value = False
) -> Value:
    """The sum along axes; with skip_mode no axis means no reduction."""
    x = b.tensor(x)
    if skip_mode and not isinstance(axis, OnnxTensor) and not integers(axis, "the axis"):
        return x
    return reduced(b, "ReduceSum", b.cast(x, result_dtype(b, x)), axis, keep_dims)


@lowers("ReduceAll", op_type="ReduceMin")
@lowers("ReduceAny", "Any", "AnyExt", op_type="ReduceMax")
def reduce_truth(
    b: Builder, x: Value, axis: Value = (), keep_dims: Value = False, *, op_type: str
) -> Value:
    """Whether all, or any, elements along axes are true."""
    return reduced(b, op_type, b.cast(b.tensor(x), BOOL), axis, keep_dims)


@lowers_each("op_type", {"SumExt": "ReduceSum", "MeanExt": "ReduceMean", "ProdExt": "ReduceProd"})
def reduce_ext(
    b: Builder,
    input: Value,
    dim: Value = None,
    keepdim: Value = False,
    dtype: Value = None,
    *,
    op_type: str,
) -> Value:
    """Sum, mean or product along dim, in the dtype asked for or recorded."""
    x = b.tensor(input)
    return reduced(b, op_type, b.cast(x, dtype_of(dtype, result_dtype(b, x))), dim, keepdim)


@lowers("Nansum")
def nan_sum(
    b: Builder, input: Value, dim: Value = None, keepdim: Value = False, dtype: Value = None
) -> Value:
    """The sum along dim, without NaN."""
    x = b.tensor(input)
    numbers = where(b, b.op("IsNaN", x), 0, x, x.dtype) if is_float(x.dtype) else x
    wide = b.cast(numbers, dtype_of(dtype, result_dtype(b, x)))
    return reduced(b, "ReduceSum", wide, dim, keepdim)


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
    return reduced(b, "ReduceSum", b.cast(b.cast(b.tensor(input), BOOL), INT64), dim, False)


@lowers("Argmax", op_type="ArgMax")
@lowers("Argmin", op_type="ArgMin")
def arg_extreme(
    b: Builder, x: Value, axis: Value = -1, *type_id: Value, output_type: Value = None, op_type: str
) -> Value:
    """The index of the largest or smallest element along an axis, the first of equals."""
    return _arg(b, op_type, b.tensor(x), axis, False)


@lowers("ArgMaxExt", op_type="ArgMax")
@lowers("ArgMinExt", op_type="ArgMin")
def arg_extreme_ext(
    b: Builder, input: Value, dim: Value = -1, keepdim: Value = False, *, op_type: str
) -> Value:
    """The index of the largest or smallest element along dim, the first of equals; None: of all."""
    return _arg(b, op_type, b.tensor(input), dim, keepdim)


def _arg(b: Builder, op_type: str, x: OnnxTensor, axis: Value, keep: Value) -> OnnxTensor:
    if axis is None:
        x, axis = b.op("Reshape", x, (-1,)), 0
    return b.op(op_type, x, axis=integer(axis, "the axis"), keepdims=int(bool(keep)))


@lowers_each("side", {"ArgMaxWithValue": "Max", "ArgMinWithValue": "Min"})
def arg_with_value(
    b: Builder, input: Value, axis: Value = 0, keep_dims: Value = False, *, side: str
) -> Value:
    """(index of the extreme along an axis, the extreme)."""
    x = b.tensor(input)
    index = _arg(b, f"Arg{side}", x, axis, keep_dims)
    return index, reduced(b, f"Reduce{side}", x, axis, keep_dims)


@lowers_each("side", {"MaxDim": "Max", "MinDim": "Min"})
def extreme_with_index(
    b: Builder, input: Value, dim: Value, keepdim: Value = False, *, side: str
) -> Value:
    """(the extreme along dim, its index)."""
    x = b.tensor(input)
    value = reduced(b, f"Reduce{side}", x, dim, keepdim)
    return value, _arg(b, f"Arg{side}", x, dim, keepdim)
