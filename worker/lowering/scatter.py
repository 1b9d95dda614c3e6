"""Scattering: tensors with some elements replaced by, or combined with, others."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..dtypes import is_float, limits
from .arguments import integer, integers, number
from .builder import Builder, Tensor, Value
from .gather import index
from .math import as_dtype, where
from .registry import Lower, lowers
from .shape import dims

_INT64, _FLOAT32 = np.dtype(np.int64), np.dtype(np.float32)
_SCATTERS = {"Update": "none", "Add": "add", "Sub": "sub", "Mul": "mul", "Max": "max", "Min": "min"}
_REDUCTIONS = {0: "none", 1: "add"}


def scattered(b: Builder, op_type: str, x: Tensor, indices: Tensor, updates: Tensor, reduction: str,
              **attributes: Any) -> Tensor:
    """ScatterND or ScatterElements; combining half precision, for which there is no kernel, in float32."""
    wide = _FLOAT32 if reduction != "none" and is_float(x.dtype) and x.dtype.itemsize == 2 else x.dtype
    result: Tensor = b.op(op_type, b.cast(x, wide), indices, b.cast(updates, wide), reduction=reduction, **attributes)
    return b.cast(result, x.dtype)


def _scatter(reduction: str) -> Lower:
    def lower(b: Builder, input_x: Value, indices: Value, updates: Value) -> Value:
        x = b.tensor(input_x)
        values = as_dtype(b, updates, x.dtype)
        if reduction == "sub":
            values = b.op("Neg", values)
        how = "add" if reduction == "sub" else reduction
        return scattered(b, "ScatterND", x, b.cast(b.tensor(indices), _INT64), values, how)

    return lower


for _primitive, _reduction in _SCATTERS.items():
    lowers(f"TensorScatter{_primitive}")(_scatter(_reduction))


@lowers("TensorScatterDiv")
def scatter_div(b: Builder, input_x: Value, indices: Value, updates: Value) -> Value:
    """x, with elements divided by all of their updates, whose product is found first."""
    x = b.tensor(input_x)
    wide = x.dtype if is_float(x.dtype) else _INT64
    ones = b.op("Expand", np.ones((), wide), b.op("Shape", x))
    product = scattered(b, "ScatterND", ones, b.cast(b.tensor(indices), _INT64), as_dtype(b, updates, wide), "mul")
    return b.cast(b.op("Div", b.cast(x, wide), product), x.dtype)


@lowers("ScatterNd")
def scatter_nd(b: Builder, indices: Value, updates: Value, shape: Value) -> Value:
    """Zeros of a shape, with the updates added at the indices; of truth values, 'or'."""
    values = b.tensor(updates)
    wide = np.dtype(np.int32) if values.dtype == np.bool_ else values.dtype
    zeros = b.op("Expand", np.zeros((), wide), b.cast(b.tensor(shape), _INT64))
    found = scattered(b, "ScatterND", zeros, b.cast(b.tensor(indices), _INT64), b.cast(values, wide), "add")
    return b.cast(found, values.dtype)


def scatter_along(b: Builder, data: Value, indices: Value, updates: Value, axis: Value, reduction: Value) -> Tensor:
    """data with one element along the axis replaced, or added to, per index; 0 (none) and 1 (add) are enum numbers."""
    how = _REDUCTIONS.get(reduction, reduction)
    if how not in ("none", "add"):
        raise ValueError(f"the reduction {how} is not supported")
    x = b.tensor(data)
    return scattered(b, "ScatterElements", x, index(b, indices), as_dtype(b, updates, x.dtype), how,
                     axis=integer(axis, "the axis"))


@lowers("TensorScatterElements")
def scatter_elements(b: Builder, data: Value, indices: Value, updates: Value, axis: Value = 0,
                     reduction: Value = "none") -> Value:
    """data with one element along the axis replaced, or added to, per index."""
    return scatter_along(b, data, indices, updates, axis, reduction)


@lowers("Scatter")
def scatter(b: Builder, input: Value, dim: Value, index_: Value, src: Value, reduce: Value = "none") -> Value:
    """input with one element along dim replaced, or added to, per index."""
    return scatter_along(b, input, index_, src, dim, reduce)


@lowers("ScatterValue")
def scatter_value(b: Builder, input: Value, dim: Value, index_: Value, src: Value, reduce: Value = "none") -> Value:
    """Scatter of one number."""
    x, ids = b.tensor(input), index(b, index_)
    return scatter_along(b, x, ids, b.op("Expand", as_dtype(b, src, x.dtype), b.op("Shape", ids)), dim, reduce)


@lowers("ScatterAddExt")
def scatter_add(b: Builder, input: Value, dim: Value, index_: Value, src: Value) -> Value:
    """input with src added to one element along dim per index."""
    return scatter_along(b, input, index_, src, dim, "add")


def _for_slices(b: Builder, x: Tensor, ids: Tensor, axis: int, shape: Value) -> Tensor:
    """Indices of slices as indices of their elements."""
    line = b.op("Reshape", ids, tuple(-1 if at == axis % x.rank else 1 for at in range(x.rank)))
    result: Tensor = b.op("Expand", line, shape)
    return result


@lowers("InplaceAdd", "InplaceSub")
def rows_added(b: Builder, x: Value, input_v: Value, *, indices: Value) -> Value:
    """x with the rows of v added to, or taken from, those that the indices name; x itself stays, for all its name."""
    tensor = b.tensor(x)
    how = "sub" if b.node is not None and b.node.primitive == "InplaceSub" else "add"
    values = as_dtype(b, input_v, tensor.dtype)
    values = b.op("Neg", values) if how == "sub" else values
    return index_add_ext(b, tensor, 0, np.asarray(integers(indices, "the indices"), np.int64), values)


@lowers("InplaceUpdateV2")
def rows_replaced(b: Builder, x: Value, indices: Value, v: Value) -> Value:
    """x with the rows of v in place of those that the indices name."""
    tensor = b.tensor(x)
    ids = b.op("Reshape", index(b, b.tensor(indices)), (-1, 1))
    return scattered(b, "ScatterND", tensor, b.cast(ids, _INT64), as_dtype(b, v, tensor.dtype), "none")


@lowers("IndexAdd")
def index_add(b: Builder, x: Value, indices: Value, y: Value, *, axis: int = 0) -> Value:
    """x with the slices of y added to those that the indices name."""
    return index_add_ext(b, x, axis, indices, y)


@lowers("IndexAddExt")
def index_add_ext(b: Builder, input: Value, dim: Value, index_: Value, source: Value, alpha: Value = 1) -> Value:
    """input with alpha times the slices of source added to those that the indices name."""
    x, at = b.tensor(input), integer(dim, "dim")
    values = as_dtype(b, source, x.dtype)
    ids = _for_slices(b, x, index(b, index_), at, b.op("Shape", values))
    values = values if alpha == 1 else b.op("Mul", values, as_dtype(b, alpha, x.dtype))
    return scatter_along(b, x, ids, values, at, "add")


@lowers("IndexFill", "IndexFillScalar", "IndexFillTensor")
def index_fill(b: Builder, x: Value, dim: Value, index_: Value, value: Value) -> Value:
    """x with one value in the slices that the indices name."""
    x, at = b.tensor(x), integer(dim, "dim")
    marks = b.op("Expand", np.zeros((), np.int32), b.ints((dims(b, x)[at],)))
    ids = b.op("Reshape", index(b, index_), (-1,))
    ones = b.op("Expand", np.ones((), np.int32), b.op("Shape", ids))
    marked = b.op("ScatterElements", marks, ids, ones, axis=0)
    hit = b.op("Reshape", marked, tuple(-1 if axis == at % x.rank else 1 for axis in range(x.rank)))
    return where(b, hit, value, x, x.dtype)


def segments(b: Builder, values: Tensor, ids: Tensor, count: Value, start: Value, reduction: str) -> Tensor:
    """Slices of values combined by the number of their segment; those without a segment of the result are left out."""
    size = b.cast(b.tensor(count), _INT64)
    outside = b.op("Or", b.op("Less", ids, 0), b.op("GreaterOrEqual", ids, b.cast(size, ids.dtype)))
    axes = len(ids.shape) if ids.shape is not None else 1
    places = b.op("Unsqueeze", b.cast(where(b, outside, b.cast(size, ids.dtype), ids, ids.dtype), _INT64), (-1,))
    shape = b.op("Concat", b.op("Reshape", b.op("Add", size, 1), (1,)),
                 b.op("Slice", b.op("Shape", values), (axes,), (np.iinfo(np.int64).max,)), axis=0)
    room = b.op("Expand", np.asarray(start, values.dtype), shape)
    found = scattered(b, "ScatterND", room, places, values, reduction)
    result: Tensor = b.op("Slice", found, (0,), (-1,), (0,))
    return result


def _segment(reduction: str) -> Lower:
    def lower(b: Builder, input_x: Value, segment_ids: Value, num_segments: Value) -> Value:
        x = b.tensor(input_x)
        low, high = limits(x.dtype)
        start = {"add": 0, "mul": 1, "max": low, "min": high}[reduction]
        return segments(b, x, index(b, segment_ids), num_segments, start, reduction)

    return lower


for _primitive, _reduction in {"Sum": "add", "Prod": "mul", "Max": "max", "Min": "min"}.items():
    lowers(f"UnsortedSegment{_primitive}")(_segment(_reduction))


@lowers("Bincount")
def bin_count(b: Builder, array: Value, size: Value, weights: Value) -> Value:
    """The sum of the weights of each number below the size."""
    return segments(b, b.tensor(weights), index(b, array), size, 0, "add")


@lowers("HistcExt")
def histogram(b: Builder, input: Value, bins: Value = 100, min: Value = 0, max: Value = 0) -> Value:
    """How many elements lie in each of equal bins between min and max; the last bin holds max too."""
    x, count = b.tensor(input), integer(bins, "bins")
    low, high = float(number(min, "min")), float(number(max, "max"))
    if low >= high:
        raise ValueError("a histogram needs min and max that differ")
    wide = b.cast(x, np.dtype(np.float64))
    place = b.op("Floor", b.op("Mul", b.op("Sub", wide, low), count / (high - low)))
    last = where(b, b.op("Equal", wide, high), float(count - 1), place, wide.dtype)
    ids = b.op("Reshape", b.cast(last, _INT64), (-1,))
    ones = b.op("Expand", np.ones((), np.int64), b.op("Shape", ids))
    return b.cast(segments(b, ones, ids, count, 0, "add"), x.dtype)


@lowers("BincountExt")
def bin_count_ext(b: Builder, input: Value, weights: Value = None, minlength: Value = 0) -> Value:
    """How often, or with what weight, each number comes, at least minlength numbers."""
    ids = b.cast(index(b, input), _INT64)
    longest = b.op("Max", b.op("Add", b.op("ReduceMax", ids, keepdims=0), 1), integer(minlength, "minlength"))
    ones = b.op("Expand", np.ones((), np.int64), b.op("Shape", ids))
    return segments(b, ones if weights is None else b.tensor(weights), ids, longest, 0, "add")
