"""Segments: slices that are combined by the numbers of their segments, and counts of numbers."""

from __future__ import annotations

import numpy as np

from ...element_types.dtypes import limits
from ..builder import (
    END,
    FLOAT32,
    FLOAT64,
    INT64,
    Builder,
    OnnxTensor,
    Value,
    filled_like,
    integer,
    lowers,
    lowers_each,
    number,
    where,
)
from .gather import index
from .scatter import scattered

_REDUCTIONS = {"Sum": "add", "Prod": "mul", "Max": "max", "Min": "min"}


def segments(
    b: Builder, values: OnnxTensor, ids: OnnxTensor, count: Value, reduction: str
) -> OnnxTensor:
    """Slices of values combined by segment; those without a segment of the result are left out."""
    low, high = limits(values.dtype)
    start = {"add": 0, "mul": 1, "max": low, "min": high}[reduction]
    size = b.cast(b.tensor(count), INT64)
    outside = b.op("Or", b.op("Less", ids, 0), b.op("GreaterOrEqual", ids, b.cast(size, ids.dtype)))
    axes = len(ids.shape) if ids.shape is not None else 1
    inside = where(b, outside, b.cast(size, ids.dtype), ids, ids.dtype)
    places = b.op("Unsqueeze", b.cast(inside, INT64), (-1,))
    rows = b.op("Reshape", b.op("Add", size, 1), (1,))
    shape = b.op("Concat", rows, b.op("Slice", b.op("Shape", values), (axes,), (END,)), axis=0)
    initial = b.op("Expand", np.asarray(start, values.dtype), shape)
    found = scattered(b, "ScatterND", initial, places, values, reduction)
    return b.op("Slice", found, (0,), (-1,), (0,))


@lowers_each("reduction", {f"UnsortedSegment{name}": how for name, how in _REDUCTIONS.items()})
def unsorted_segment(
    b: Builder, input_x: Value, segment_ids: Value, num_segments: Value, *, reduction: str
) -> Value:
    """Slices combined by segment."""
    return segments(b, b.tensor(input_x), index(b, segment_ids), num_segments, reduction)


def _count(b: Builder, ids: OnnxTensor) -> OnnxTensor:
    """The number of segments: one more than the last id."""
    return b.op("Add", b.op("Gather", ids, np.asarray(-1, np.int64)), 1)


def _slices(b: Builder, x: OnnxTensor, ids: OnnxTensor, count: OnnxTensor) -> OnnxTensor:
    """The number of slices of each segment, in the rank of x."""
    ones = filled_like(b, 1, ids, FLOAT32)
    return b.op("Reshape", segments(b, ones, ids, count, "add"), (-1, *(1,) * (x.rank - 1)))


@lowers_each("reduction", {f"Segment{name}": how for name, how in _REDUCTIONS.items()})
def segment(b: Builder, input_x: Value, segment_ids: Value, *, reduction: str) -> Value:
    """Slices combined by sorted ids; empty segments are 0, of products 1."""
    x, ids = b.tensor(input_x), index(b, segment_ids)
    count = _count(b, ids)
    found = segments(b, x, ids, count, reduction)
    if reduction in ("add", "mul"):
        return found
    return where(b, b.op("Equal", _slices(b, x, ids, count), 0.0), 0, found, x.dtype)


@lowers("SegmentMean")
def segment_mean(b: Builder, input_x: Value, segment_ids: Value) -> Value:
    """The mean of each segment's slices, 0 for an empty segment."""
    x, ids = b.tensor(input_x), index(b, segment_ids)
    count = _count(b, ids)
    wide = b.cast(x, np.dtype(np.float64 if x.dtype == np.float64 else np.float32))
    total = segments(b, wide, ids, count, "add")
    slices = b.cast(b.op("Max", _slices(b, x, ids, count), 1.0), wide.dtype)
    return b.cast(b.op("Div", total, slices), x.dtype)


@lowers("Bincount")
def bin_count(b: Builder, array: Value, size: Value, weights: Value) -> Value:
    """The sum of the weights of each number below the size."""
    return segments(b, b.tensor(weights), index(b, array), size, "add")


@lowers("BincountExt")
def bin_count_ext(b: Builder, input: Value, weights: Value = None, minlength: Value = 0) -> Value:
    """The occurrences, or the sum of the weights, of each number; at least minlength numbers."""
    ids = b.cast(index(b, input), INT64)
    count = b.op("Add", b.op("ReduceMax", ids, keepdims=0), 1)
    longest = b.op("Max", count, integer(minlength, "minlength"))
    ones = filled_like(b, 1, ids, INT64)
    return segments(b, ones if weights is None else b.tensor(weights), ids, longest, "add")


@lowers("HistcExt")
def histogram(b: Builder, input: Value, bins: Value = 100, min: Value = 0, max: Value = 0) -> Value:
    """The number of elements in each of equal bins from min to max; the last bin holds max too."""
    x, count = b.tensor(input), integer(bins, "bins")
    low, high = float(number(min, "min")), float(number(max, "max"))
    if low >= high:
        raise ValueError("a histogram needs min and max that differ")
    wide = b.cast(x, FLOAT64)
    place = b.op("Floor", b.op("Mul", b.op("Sub", wide, low), count / (high - low)))
    last = where(b, b.op("Equal", wide, high), float(count - 1), place, wide.dtype)
    ids = b.op("Reshape", b.cast(last, INT64), (-1,))
    return b.cast(segments(b, filled_like(b, 1, ids, INT64), ids, count, "add"), x.dtype)
