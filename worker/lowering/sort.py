"""Sorting, the k largest, medians, and running sums, products and extremes."""

from __future__ import annotations

import numpy as np

from ..dtypes import limits
from ..mindir.graph import TensorType
from .arguments import dtype_of, integer, moderate
from .builder import Builder, Tensor, Value
from .math import result_dtype, where
from .reduce import reduced
from .registry import Lower, lowers
from .shape import dims, flattened

_INT64 = np.dtype(np.int64)


def top_k(b: Builder, x: Tensor, count: Value, axis: int, largest: bool, sort: bool = True) -> tuple[Tensor, Tensor]:
    """The `count` largest or smallest along an axis, and where they are."""
    values, at = b.op("TopK", x, b.ints((count,)), outputs=2, axis=axis, largest=int(largest), sorted=int(sort),
                      types=[TensorType(x.dtype, None), TensorType(_INT64, None)])
    return values, at


@lowers("TopK")
def top_k_last(b: Builder, x: Value, k: Value, *, sorted: bool = True) -> Value:
    """The k largest along the last axis, and where they are."""
    return top_k(b, b.tensor(x), _scalar(k), -1, True)


def _scalar(value: Value) -> Value:
    return value.item() if isinstance(value, np.ndarray) else value


@lowers("TopkExt")
def top_k_ext(b: Builder, input: Value, k: Value, dim: Value = -1, largest: Value = True,
              sorted: Value = True) -> Value:
    """The k largest or smallest along dim, and where they are."""
    return top_k(b, b.tensor(input), _scalar(k), integer(dim, "dim"), bool(largest))


@lowers("Sort")
def sort(b: Builder, x: Value, *, axis: int = -1, descending: bool = False) -> Value:
    """(sorted along an axis, where the elements were)."""
    tensor = b.tensor(x)
    return top_k(b, tensor, dims(b, tensor)[axis], axis, bool(descending))


@lowers("SortExt")
def sort_ext(b: Builder, input: Value, dim: Value = -1, descending: Value = False, stable: Value = False) -> Value:
    """(sorted along dim, where the elements were)."""
    return sort(b, input, axis=integer(dim, "dim"), descending=bool(descending))


@lowers("ArgSort")
def arg_sort(b: Builder, input: Value, dim: Value = -1, descending: Value = False, stable: Value = False) -> Value:
    """Where the elements in order along dim are."""
    return sort_ext(b, input, dim, descending)[1]


@lowers("Median")
def median(b: Builder, x: Value, *, axis: int = 0, global_median: bool = False, keep_dims: bool = False,
           ignore_nan: bool = False) -> Value:
    """(the median along an axis, the lower of two, where it is)."""
    x = b.tensor(x)
    if global_median:
        x, axis, keep_dims = flattened(b, x), 0, False
    size = dims(b, x)[axis]
    count = (size + 1) // 2 if isinstance(size, int) else b.op("Div", b.op("Add", size, 1), 2)
    found = top_k(b, x, count, axis, False)
    return _last_of(b, found, axis, keep_dims)


def _last_of(b: Builder, parts: tuple[Tensor, Tensor], axis: int, keep: bool) -> tuple[Tensor, ...]:
    picked = [b.op("Slice", part, (-1,), (np.iinfo(np.int64).max,), (axis,)) for part in parts]
    return tuple(picked if keep else [b.op("Squeeze", part, (axis,)) for part in picked])


@lowers("MedianExt")
def median_of_all(b: Builder, input: Value) -> Value:
    """The median of all elements, the lower of two."""
    return median(b, input, global_median=True)[0]


@lowers("MedianDim")
def median_along(b: Builder, input: Value, dim: Value = -1, keepdim: Value = False) -> Value:
    """(the median along dim, the lower of two, where it is)."""
    return median(b, input, axis=integer(dim, "dim"), keep_dims=bool(keepdim))


@lowers("Kthvalue")
def kth_value(b: Builder, input: Value, k: Value, dim: Value = -1, keepdim: Value = False) -> Value:
    """(the k-th smallest along dim, where it is)."""
    axis = integer(dim, "dim")
    return _last_of(b, top_k(b, b.tensor(input), k, axis, False), axis, bool(keepdim))


@lowers("NthElement")
def nth_element(b: Builder, input: Value, n: Value, *, reverse: bool = False) -> Value:
    """The n-th smallest, or largest, of each row, counted from 0."""
    count = integer(n, "n") + 1
    return _last_of(b, top_k(b, b.tensor(input), count, -1, bool(reverse)), -1, False)[0]


@lowers("CumulativeLogsumexp")
def cum_log_sum_exp(b: Builder, x: Value, axis: Value, *, exclusive: bool = False, reverse: bool = False) -> Value:
    """The logarithm of the running sum of exponentials."""
    tensor = b.tensor(x)
    lowest = limits(tensor.dtype)[0]
    parts, at = prefixes(b, tensor, integer(axis, "the axis"), lowest, bool(exclusive), bool(reverse))
    return b.op("ReduceLogSumExp", parts, (at,), keepdims=0)


@lowers("CumSum")
def cum_sum(b: Builder, input: Value, axis: Value, exclusive: Value = False, reverse: Value = False) -> Value:
    """The running sum along an axis."""
    at = np.asarray(integer(axis, "the axis"), np.int64)
    return b.op("CumSum", b.tensor(input), at, exclusive=int(bool(exclusive)), reverse=int(bool(reverse)))


@lowers("CumsumExt")
def cum_sum_ext(b: Builder, input: Value, dim: Value, dtype: Value = None) -> Value:
    """The running sum along dim, in the dtype asked for or recorded."""
    x = b.tensor(input)
    return cum_sum(b, b.cast(x, dtype_of(dtype, result_dtype(b, x))), dim)


def prefixes(b: Builder, x: Tensor, axis: int, fill: Value, exclusive: bool = False,
             reverse: bool = False) -> tuple[Tensor, int]:
    """All beginnings of an axis side by side, filled up, and the axis to reduce.

    There is no ONNX operator for running products and extremes; axes of this kind are short.
    """
    size, axis = dims(b, x)[axis], axis % x.rank
    after = (1,) * (x.rank - axis - 1)
    if isinstance(size, int):
        moderate(size * size, "the square of the axis")
        mask = np.tri(size, k=-1 if exclusive else 0, dtype=np.bool_)
        mask = (mask.T if reverse else mask).reshape((size, size) + after)
    else:
        steps = b.op("Range", 0, size, 1, type=TensorType(_INT64, (-1,)))
        rows, columns = b.op("Reshape", steps, (-1, 1, *after)), b.op("Reshape", steps, (-1, *after))
        rows, columns = (columns, rows) if reverse else (rows, columns)
        mask = b.op("Greater" if exclusive else "GreaterOrEqual", rows, columns)
    wide = b.op("Unsqueeze", x, (axis,))
    return where(b, mask, wide, np.asarray(fill, x.dtype), x.dtype), axis + 1


@lowers("CumProd")
def cum_prod(b: Builder, x: Value, axis: Value, exclusive: Value = False, reverse: Value = False) -> Value:
    """The running product along an axis."""
    parts, at = prefixes(b, b.tensor(x), integer(axis, "the axis"), 1, bool(exclusive), bool(reverse))
    return b.op("ReduceProd", parts, (at,), keepdims=0)


def _extreme(side: str) -> Lower:
    def lower(b: Builder, input: Value, axis: Value) -> Value:
        x = b.tensor(input)
        low, high = limits(_INT64 if x.dtype == np.uint64 else x.dtype)  # uint64 is computed in int64
        low = 0 if x.dtype == np.uint64 else low
        parts, at = prefixes(b, x, integer(axis, "the axis"), low if side == "Max" else high)
        found = b.op(f"Arg{side}", parts, axis=at, keepdims=0, select_last_index=1)
        return reduced(b, f"Reduce{side}", parts, at, False), found

    return lower


lowers("Cummax")(_extreme("Max"))
lowers("Cummin", "CumminExt")(_extreme("Min"))
