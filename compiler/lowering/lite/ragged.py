"""Rows in .ms files: ragged and sparse ones, as TensorFlow has them, and those found by keys."""

from __future__ import annotations

import numpy as np

from ..builder import END, INT64, Builder, OnnxTensor, Value, lowers
from .results import kept

_ONE = np.ones(1, np.int64)
_ZERO = np.zeros(1, np.int64)


@lowers("Lite.RaggedRange")
def ragged_range(b: Builder, start: Value, limit: Value, delta: Value) -> Value:
    """(the place at which each row begins, and the end; the numbers of all rows): the rows go from
    their starts up to before their limits by their steps.
    """
    first, last, step = (b.op("Reshape", b.tensor(one), (-1,)) for one in (start, limit, delta))
    both = b.op("Max", b.op("Shape", first), b.op("Shape", last), b.op("Shape", step))
    first, last, step = (b.op("Expand", one, both) for one in (first, last, step))
    gap = b.op("Sub", b.cast(last, np.dtype(np.float64)), b.cast(first, np.dtype(np.float64)))
    count = b.op("Ceil", b.op("Div", gap, b.cast(step, np.dtype(np.float64))))
    sizes = b.op("Max", b.cast(count, INT64), 0)
    splits = b.op("Concat", _ZERO, b.op("CumSum", sizes, 0), axis=0)
    place, row = _rows(b, splits)
    begins = b.op("Gather", splits, row, axis=0)
    along = b.cast(b.op("Sub", place, begins), first.dtype)
    moved = b.op("Mul", along, b.op("Gather", step, row, axis=0))
    values = b.op("Add", b.op("Gather", first, row, axis=0), moved)
    return kept(b, (b.cast(splits, np.dtype(np.int32)), values))


def _rows(b: Builder, splits: OnnxTensor) -> tuple[OnnxTensor, OnnxTensor]:
    """The place of each number, and its row: as many rows end before it."""
    ends = b.op("Slice", splits, (1,), (END,))
    total = b.op("Slice", splits, (-1,), (END,))
    place = b.op("Range", 0, b.op("Squeeze", total), 1)
    marks = _counted(b, ends, b.op("Add", total, _ONE))
    return place, b.op("Slice", b.op("CumSum", marks, 0), (0,), (-1,))


def _counted(b: Builder, places: OnnxTensor, size: Value) -> OnnxTensor:
    """[size]: how often each number is among the places."""
    ones = b.op("Expand", _ONE, b.op("Shape", places))
    nothing = b.op("Expand", _ZERO, size)
    return b.op("ScatterElements", nothing, places, ones, axis=0, reduction="add")


@lowers("Lite.SparseFillEmptyRows")
def sparse_fill_empty_rows(
    b: Builder, indices: Value, values: Value, shape: Value, default: Value
) -> Value:
    """(indices, values, whether each row was empty, the place of each given element): a sparse
    tensor in the order of its rows, whose empty rows get the default as their first element.
    """
    at, elements = b.cast(indices, INT64), b.tensor(values)
    rows = b.op("Squeeze", b.op("Slice", at, (0,), (1,), (1,)), (1,))
    size = b.op("Slice", b.cast(b.tensor(shape), INT64), (0,), (1,))
    empty = b.op("Equal", _counted(b, rows, size), 0)
    added = b.op("Squeeze", b.op("NonZero", empty), (0,))
    count = b.op("Shape", added)
    width = b.op("Sub", b.op("Shape", at, start=1, end=2), _ONE)
    zeros = b.op("Expand", np.zeros((1, 1), np.int64), b.op("Concat", count, width, axis=0))
    begins = b.op("Concat", b.op("Unsqueeze", added, (1,)), zeros, axis=1)
    filling = b.op("Expand", b.op("Reshape", b.tensor(default), ()), count)
    order, back = _order(b, b.op("Concat", rows, added, axis=0))
    everywhere = b.op("Gather", b.op("Concat", at, begins, axis=0), order, axis=0)
    found = b.op("Gather", b.op("Concat", elements, filling, axis=0), order, axis=0)
    given = b.op("Slice", back, (0,), b.op("Shape", rows), (0,))
    kind = b.tensor(indices).dtype
    return kept(b, (b.cast(everywhere, kind), found, empty, b.cast(given, kind)))


def _order(b: Builder, keys: OnnxTensor) -> tuple[OnnxTensor, OnnxTensor]:
    """The order in which keys rise, equal ones as they come, and the place of each key in it."""
    size = b.op("Shape", keys)
    _, order = b.ops("TopK", keys, size, outputs=2, largest=0)
    _, back = b.ops("TopK", order, size, outputs=2, largest=0)
    return order, back


@lowers("Lite.HashtableLookup")
def hashtable_lookup(b: Builder, wanted: Value, keys: Value, values: Value) -> Value:
    """(the row of each wanted key, zeros where there is none; whether there is one)."""
    table = b.tensor(values)
    asked, known = b.op("Unsqueeze", b.cast(wanted, INT64), (1,)), b.cast(keys, INT64)
    same = b.cast(b.op("Equal", asked, known), np.dtype(np.int32))
    rows = b.op("Gather", table, b.op("ArgMax", same, axis=1, keepdims=0), axis=0)
    hits = b.op("ReduceMax", same, (1,), keepdims=0)
    factor = b.op("Reshape", b.cast(hits, table.dtype), (-1,) + (1,) * (table.rank - 1))
    return kept(b, (b.op("Mul", rows, factor), b.cast(hits, np.dtype(np.uint8))))
