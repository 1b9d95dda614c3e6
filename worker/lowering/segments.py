"""Slices combined by sorted numbers of segments; a segment's number is known by its slices alone."""

from __future__ import annotations

import numpy as np

from ..dtypes import limits
from .builder import Builder, Tensor, Value
from .gather import index
from .math import where
from .registry import Lower, lowers
from .scatter import segments


def _count(b: Builder, ids: Tensor) -> Tensor:
    """How many segments there are: as many as the last number says."""
    last = b.op("Gather", ids, np.asarray(-1, np.int64))
    count: Tensor = b.op("Add", last, 1)
    return count


def _slices(b: Builder, x: Tensor, ids: Tensor, count: Tensor) -> Tensor:
    """How many slices each segment has, in the rank of x."""
    ones = b.op("Expand", np.ones((), np.float32), b.op("Shape", ids))
    slices: Tensor = b.op("Reshape", segments(b, ones, ids, count, 0, "add"), (-1, *(1,) * (x.rank - 1)))
    return slices


def _segment(reduction: str) -> Lower:
    def lower(b: Builder, input_x: Value, segment_ids: Value) -> Value:
        x, ids = b.tensor(input_x), index(b, segment_ids)
        low, high = limits(x.dtype)
        start = {"add": 0, "mul": 1, "max": low, "min": high}[reduction]
        count = _count(b, ids)
        found = segments(b, x, ids, count, start, reduction)
        if reduction in ("add", "mul"):
            return found
        return where(b, b.op("Equal", _slices(b, x, ids, count), 0.0), 0, found, x.dtype)  # an empty segment is 0

    return lower


for _primitive, _reduction in {"Sum": "add", "Prod": "mul", "Max": "max", "Min": "min"}.items():
    lowers(f"Segment{_primitive}")(_segment(_reduction))


@lowers("SegmentMean")
def segment_mean(b: Builder, input_x: Value, segment_ids: Value) -> Value:
    """The mean of each segment's slices, 0 where it has none."""
    x, ids = b.tensor(input_x), index(b, segment_ids)
    count = _count(b, ids)
    wide = b.cast(x, np.dtype(np.float64 if x.dtype == np.float64 else np.float32))
    total = segments(b, wide, ids, count, 0, "add")
    slices = b.cast(b.op("Max", _slices(b, x, ids, count), 1.0), wide.dtype)
    return b.cast(b.op("Div", total, slices), x.dtype)
