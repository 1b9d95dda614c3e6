"""Sorting: order, the k largest, medians, and running sums, products and extremes."""

from __future__ import annotations

import numpy as np

from ...element_types.dtypes import limits
from ...element_types.value_types import TensorType
from ..builder import (
    END,
    INT64,
    Builder,
    OnnxTensor,
    Value,
    dims,
    dtype_of,
    flattened,
    integer,
    lowers,
    lowers_each,
    moderate,
    result_dtype,
    steps,
    where,
)
from .reduce import reduced


def top_k(
    b: Builder, x: OnnxTensor, count: Value, axis: int, largest: bool
) -> tuple[OnnxTensor, OnnxTensor]:
    """The `count` largest or smallest along an axis, and their places."""
    values, at = b.ops(
        "TopK",
        x,
        b.ints((count,)),
        outputs=2,
        axis=axis,
        largest=int(largest),
        sorted=1,
        types=[TensorType(x.dtype, None), TensorType(INT64, None)],
    )
    return values, at


@lowers("TopK")
def top_k_last(b: Builder, x: Value, k: Value, *, sorted: bool = True) -> Value:
    """The k largest along the last axis, and their places."""
    return top_k(b, b.tensor(x), _scalar(k), -1, True)


def _scalar(value: Value) -> Value:
    return value.item() if isinstance(value, np.ndarray) else value


@lowers("TopkExt")
def top_k_ext(
    b: Builder, input: Value, k: Value, dim: Value = -1, largest: Value = True, sorted: Value = True
) -> Value:
    """The k largest or smallest along dim, and their places."""
    return top_k(b, b.tensor(input), _scalar(k), integer(dim, "dim"), bool(largest))


@lowers("Sort")
def sort(b: Builder, x: Value, *, axis: int = -1, descending: bool = False) -> Value:
    """(sorted along an axis, the places of the elements)."""
    tensor = b.tensor(x)
    return top_k(b, tensor, dims(b, tensor)[axis], axis, bool(descending))


@lowers("SortExt")
def sort_ext(
    b: Builder, input: Value, dim: Value = -1, descending: Value = False, stable: Value = False
) -> Value:
    """(sorted along dim, the places of the elements)."""
    return sort(b, input, axis=integer(dim, "dim"), descending=bool(descending))


@lowers("ArgSort")
def arg_sort(
    b: Builder, input: Value, dim: Value = -1, descending: Value = False, stable: Value = False
) -> Value:
    """The places of the elements in order along dim."""
    return sort_ext(b, input, dim, descending)[1]


@lowers("Median")
def median(
    b: Builder,
    x: Value,
    *,
    axis: int = 0,
    global_median: bool = False,
    keep_dims: bool = False,
    ignore_nan: bool = False,
) -> Value:
    """(the median along an axis, the lower of two, its place)."""
    x = b.tensor(x)
    if global_median:
        x, axis, keep_dims = flattened(b, x), 0, False
    size = dims(b, x)[axis]
    count = (size + 1) // 2 if isinstance(size, int) else b.op("Div", b.op("Add", size, 1), 2)
    return _last_of(b, top_k(b, x, count, axis, False), axis, keep_dims)


def _last_of(
    b: Builder, parts: tuple[OnnxTensor, OnnxTensor], axis: int, keep: bool
) -> tuple[OnnxTensor, ...]:
    picked = [b.op("Slice", part, (-1,), (END,), (axis,)) for part in parts]
    return tuple(picked if keep else [b.op("Squeeze", part, (axis,)) for part in picked])


@lowers("MedianExt")
def median_of_all(b: Builder, input: Value) -> Value:
    """The median of all elements, the lower of two."""
    return median(b, input, global_median=True)[0]


@lowers("MedianDim")
def median_along(b: Builder, input: Value, dim: Value = -1, keepdim: Value = False) -> Value:
    """(the median along dim, the lower of two, its place)."""
    return median(b, input, axis=integer(dim, "dim"), keep_dims=bool(keepdim))


@lowers("Kthvalue")
def kth_value(b: Builder, input: Value, k: Value, dim: Value = -1, keepdim: Value = False) -> Value:
    """(the k-th smallest along dim, its place)."""
    axis = integer(dim, "dim")
    return _last_of(b, top_k(b, b.tensor(input), k, axis, False), axis, bool(keepdim))


@lowers("NthElement")
def nth_element(b: Builder, input: Value, n: Value, *, reverse: bool = False) -> Value:
    """The n-th smallest, or largest, of each row, counted from 0."""
    count = integer(n, "n") + 1
    return _last_of(b, top_k(b, b.tensor(input), count, -1, bool(reverse)), -1, False)[0]


@lowers_each("op_type", {"CumProd": "ReduceProd", "CumulativeLogsumexp": "ReduceLogSumExp"})
def cum_reduced(
    b: Builder,
    x: Value,
    axis: Value,
    exclusive: Value = False,
    reverse: Value = False,
    *,
    op_type: str,
) -> Value:
    """The running product along an axis, or the logarithm of a running sum of exponentials."""
    tensor, along = b.tensor(x), integer(axis, "the axis")
    fill = 1 if op_type == "ReduceProd" else limits(tensor.dtype)[0]
    parts, at = _prefixes(b, tensor, along, fill, bool(exclusive), bool(reverse))
    return b.op(op_type, parts, (at,), keepdims=0)


@lowers("CumSum")
def cum_sum(
    b: Builder, input: Value, axis: Value, exclusive: Value = False, reverse: Value = False
) -> Value:
    """The running sum along an axis."""
    x, at = b.tensor(input), np.asarray(integer(axis, "the axis"), np.int64)
    return b.op("CumSum", x, at, exclusive=int(bool(exclusive)), reverse=int(bool(reverse)))


@lowers("CumsumExt")
def cum_sum_ext(b: Builder, input: Value, dim: Value, dtype: Value = None) -> Value:
    """The running sum along dim, in the dtype asked for or recorded."""
    x = b.tensor(input)
    return cum_sum(b, b.cast(x, dtype_of(dtype, result_dtype(b, x))), dim)


def _prefixes(
    b: Builder,
    x: OnnxTensor,
    axis: int,
    fill: Value,
    exclusive: bool = False,
    reverse: bool = False,
) -> tuple[OnnxTensor, int]:
    """All prefixes of an axis side by side, padded with `fill`, and the axis to reduce.

    ONNX has no operator for running products and extremes; such axes are short.
    """
    size, axis = dims(b, x)[axis], axis % x.rank
    after = (1,) * (x.rank - axis - 1)
    if isinstance(size, int):
        moderate(size * size, "the square of the axis")
        below = np.tri(size, k=-1 if exclusive else 0, dtype=np.bool_)
        mask: Value = (below.T if reverse else below).reshape((size, size) + after)
    else:
        line = steps(b, size)
        rows = b.op("Reshape", line, (-1, 1, *after))
        columns = b.op("Reshape", line, (-1, *after))
        rows, columns = (columns, rows) if reverse else (rows, columns)
        mask = b.op("Greater" if exclusive else "GreaterOrEqual", rows, columns)
    wide = b.op("Unsqueeze", x, (axis,))
    return where(b, mask, wide, np.asarray(fill, x.dtype), x.dtype), axis + 1


@lowers("Cummax", side="Max")
@lowers("Cummin", "CumminExt", side="Min")
def cum_extreme(b: Builder, input: Value, axis: Value, *, side: str) -> Value:
    """(the running extreme along an axis, its last place)."""
    x = b.tensor(input)
    unsigned = x.dtype == np.uint64  # computed in int64
    low, high = limits(INT64 if unsigned else x.dtype)
    fill = high if side == "Min" else 0 if unsigned else low
    parts, at = _prefixes(b, x, integer(axis, "the axis"), fill)
    found = b.op(f"Arg{side}", parts, axis=at, keepdims=0, select_last_index=1)
    return reduced(b, f"Reduce{side}", parts, at, False), found
