"""Sequences: tuples, lists and ranges of Python, computed at once where they are known."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from functools import reduce

import numpy as np

from ...element_types.value_types import TensorType
from ..builder import (
    INT64,
    Builder,
    OnnxTensor,
    Value,
    arithmetic,
    integer,
    is_number,
    lowers,
    moderate,
    result_dtype,
    where,
)
from .compare import compared

_LONGEST = 1 << 20  # items of a tuple; loops over more are loops at run time


@lowers("make_range")
def make_range(b: Builder, start: Value, stop: Value = None, step: Value = 1) -> Value:
    """The numbers of a range, a 1-d tensor where some are unknown.

    A stop alone is the first argument, and the second is None then.
    """
    if isinstance(start, OnnxTensor) or isinstance(stop, OnnxTensor):
        first, last = (0, start) if stop is None else (start, stop)
        ends = (b.tensor(value) for value in (first, last, 1 if step is None else step))
        return b.op("Range", *ends, type=TensorType(INT64, (-1,)))
    first, by = integer(start, "the start"), 1 if step is None else integer(step, "the step")
    found = range(first) if stop is None else range(first, integer(stop, "the stop"), by)
    moderate(len(found), "the length of the range", _LONGEST)
    return tuple(found)


@lowers("sequence_len")
def sequence_len(b: Builder, items: Value) -> Value:
    """How many items there are."""
    return len(items)


@lowers("tuple_equal", "list_equal")
def equal(b: Builder, x: Value, y: Value) -> Value:
    """Whether all items are equal, tuples inside too."""
    if isinstance(x, tuple) and isinstance(y, tuple):
        found: Value = len(x) == len(y)
        for one, other in zip(x, y, strict=True) if found else ():
            found = _joined(b, "And", found, equal(b, one, other))
        return found
    if isinstance(x, tuple) or isinstance(y, tuple):
        return False
    if isinstance(x, (str, type(None))) or isinstance(y, (str, type(None))):
        return x == y
    return x == y if is_number(x) and is_number(y) else compared(b, x, y, op_type="Equal")


def _joined(b: Builder, op_type: str, x: Value, y: Value) -> Value:
    """`x And y`, or `x Or y`, of truth values that are known or tensors."""
    decisive = op_type == "Or"
    for one, other in ((x, y), (y, x)):
        if isinstance(one, bool):
            return decisive if one is decisive else other
    return b.op(op_type, x, y)


@lowers("InSequence")
def in_sequence(b: Builder, item: Value, items: Value) -> Value:
    """Whether an item is in a tuple or list."""
    found: Value = False
    for other in items:
        found = _joined(b, "Or", found, equal(b, item, other))
    return found


@lowers("tuple_lt", "list_lt", lengths=operator.lt, op_type="Less")
@lowers("tuple_le", "list_le", lengths=operator.le, op_type="Less")
@lowers("tuple_greater_than", "list_greater_than", lengths=operator.gt, op_type="Greater")
@lowers("tuple_greater_equal", "list_greater_equal", lengths=operator.ge, op_type="Greater")
def ordered(
    b: Builder, x: Value, y: Value, *, lengths: Callable[[int, int], bool], op_type: str
) -> Value:
    """Whether a tuple is less or greater, by its items in order and then by the lengths."""
    strict = operator.lt if op_type == "Less" else operator.gt
    found: Value = lengths(len(x), len(y))
    for one, other in reversed(list(zip(x, y, strict=False))):
        known = is_number(one) and is_number(other)
        decided = strict(one, other) if known else compared(b, one, other, op_type=op_type)
        found = _joined(b, "Or", decided, _joined(b, "And", equal(b, one, other), found))
    return found


@lowers("SequenceAdd")
def add(b: Builder, x: Value, y: Value) -> Value:
    """The items of one and then of the other."""
    return (*x, *y)


@lowers("SequenceMul")
def multiply(b: Builder, items: Value, times: Value) -> Value:
    """The items so many times over."""
    count = integer(times, "the factor")
    moderate(len(items) * max(0, count), "the length", _LONGEST)
    return items * count


@lowers("SequenceSlice")
def sliced(b: Builder, items: Value, start: Value, stop: Value, step: Value = 1) -> Value:
    """items[start:stop:step]."""
    return items[
        integer(start, "the start") : integer(stop, "the stop") : integer(step, "the step")
    ]


@lowers("SequenceMax", known=max, op_type="Max")
@lowers("SequenceMin", known=min, op_type="Min")
def extreme_item(
    b: Builder, items: Value, *, known: Callable[[Sequence[float]], float], op_type: str
) -> Value:
    """The largest or smallest item."""
    if all(is_number(item) for item in items):
        return known(items)
    return reduce(lambda x, y: arithmetic(b, op_type, x, y), items)


@lowers("tuple_setitem", "list_setitem")
def set_item(b: Builder, items: Value, index: Value, value: Value) -> Value:
    """The items with another one at an index; a run-time index needs items that are all alike."""
    if isinstance(index, OnnxTensor):
        return tuple(
            where(b, _is_at(b, index, at, len(items)), value, item, result_dtype(b, value, item))
            for at, item in enumerate(items)
        )
    at = integer(index, "the index")
    if not -len(items) <= at < len(items):
        raise ValueError(f"item {at} is set in a tuple of {len(items)}")
    at %= len(items)
    return (*items[:at], value, *items[at + 1 :])


def _is_at(b: Builder, index: OnnxTensor, at: int, count: int) -> OnnxTensor:
    """Whether an index, counted from the front or the back, is that of an item."""
    return compared(b, b.op("Mod", index, np.asarray(count, index.dtype)), at, op_type="Equal")


@lowers("ListAppend")
def append(b: Builder, items: Value, value: Value) -> Value:
    """The items and one more."""
    return (*items, value)
