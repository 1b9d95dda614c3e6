"""Python's tuples, lists and ranges: settled while the model is built, but for numbers known at run time only."""

from __future__ import annotations

import operator
from collections.abc import Callable
from functools import reduce
from typing import Any

import numpy as np

from ..mindir.graph import TensorType
from . import compare
from .arguments import integer, is_number, moderate
from .builder import Builder, Tensor, Value
from .math import arithmetic, result_dtype, where
from .registry import Lower, lowers

_INT64 = np.dtype(np.int64)
_LONGEST = 1 << 20  # items of a tuple; loops over more are loops at run time


@lowers("make_range")
def make_range(b: Builder, start: Value, stop: Value = None, step: Value = 1) -> Value:
    """The numbers of a range; a stop alone comes first, with None behind it. Unknown ones are one tensor."""
    if isinstance(start, Tensor) or isinstance(stop, Tensor):
        first, last = (0, start) if stop is None else (start, stop)
        ends = (b.tensor(value) for value in (first, last, 1 if step is None else step))
        return b.op("Range", *ends, type=TensorType(_INT64, (-1,)))
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
        pairs = zip(x, y, strict=True) if len(x) == len(y) else ()
        return reduce(lambda so_far, pair: _both(b, so_far, equal(b, *pair)), pairs, len(x) == len(y))
    if isinstance(x, tuple) or isinstance(y, tuple):
        return False
    if isinstance(x, (str, type(None))) or isinstance(y, (str, type(None))):
        return x == y
    return x == y if is_number(x) and is_number(y) else compare.compared(b, "Equal", x, y)


def _both(b: Builder, x: Value, y: Value) -> Value:
    if isinstance(x, bool):
        return y if x else False
    if isinstance(y, bool):
        return x if y else False
    return b.op("And", x, y)


def _either(b: Builder, x: Value, y: Value) -> Value:
    if isinstance(x, bool):
        return True if x else y
    if isinstance(y, bool):
        return True if y else x
    return b.op("Or", x, y)


@lowers("InSequence")
def in_sequence(b: Builder, item: Value, items: Value) -> Value:
    """Whether an item is in a tuple or list."""
    found: Value = False
    for other in items:
        found = _either(b, found, equal(b, item, other))
    return found


_ORDERED = {"lt": (operator.lt, "Less"), "le": (operator.le, "Less"), "greater_than": (operator.gt, "Greater"),
            "greater_equal": (operator.ge, "Greater")}


def _ordered(python: Callable[[Any, Any], bool], op_type: str) -> Lower:
    """Items decide in their order, and the lengths where all items are equal."""
    strict = operator.lt if op_type == "Less" else operator.gt

    def lower(b: Builder, x: Value, y: Value) -> Value:
        found: Value = python(len(x), len(y))
        for one, other in reversed(list(zip(x, y, strict=False))):
            known = is_number(one) and is_number(other)
            decided = strict(one, other) if known else compare.compared(b, op_type, one, other)
            found = _either(b, decided, _both(b, equal(b, one, other), found))
        return found

    return lower


for _name, (_python, _op_type) in _ORDERED.items():
    lowers(f"tuple_{_name}", f"list_{_name}")(_ordered(_python, _op_type))


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
    return items[integer(start, "the start"):integer(stop, "the stop"):integer(step, "the step")]


@lowers("SequenceMax", "SequenceMin")
def largest(b: Builder, items: Value) -> Value:
    """The largest or smallest item."""
    most = b.node is None or b.node.primitive == "SequenceMax"
    if all(is_number(item) for item in items):
        return max(items) if most else min(items)
    return reduce(lambda x, y: arithmetic(b, "Max" if most else "Min", x, y), items)


@lowers("tuple_setitem", "list_setitem")
def set_item(b: Builder, items: Value, index: Value, value: Value) -> Value:
    """The items with another one at an index, which may be known at run time only where all items are alike."""
    if isinstance(index, Tensor):
        return tuple(where(b, _is_at(b, index, at, len(items)), value, item, result_dtype(b, value, item))
                     for at, item in enumerate(items))
    at = integer(index, "the index")
    if not -len(items) <= at < len(items):
        raise ValueError(f"item {at} is set in a tuple of {len(items)}")
    return (*items[:at], value, *items[at % len(items) + 1:]) if at >= 0 else set_item(b, items, at + len(items), value)


def _is_at(b: Builder, index: Tensor, at: int, count: int) -> Tensor:
    """Whether an index, counted from the front or the back, is that of an item."""
    return compare.compared(b, "Equal", b.op("Mod", index, np.asarray(count, index.dtype)), at)


@lowers("ListAppend")
def append(b: Builder, items: Value, value: Value) -> Value:
    """The items and one more."""
    return (*items, value)
