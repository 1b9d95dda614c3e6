"""Slices: parts of tensors by bounds and strides, with StridedSlice's bit masks."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from ..builder import END, START, Builder, OnnxTensor, Value, integer, lowers, moderate

_MOST_BOUNDS = 64  # more than an array has dimensions


@dataclass(slots=True)
class _SlicePlan:
    """The nodes of a StridedSlice: a Slice, a Gather for each axis picked, an Unsqueeze."""

    starts: list[Value] = field(default_factory=list)
    ends: list[Value] = field(default_factory=list)
    axes: list[int] = field(default_factory=list)
    steps: list[int] = field(default_factory=list)
    picks: list[tuple[int, Value]] = field(default_factory=list)  # (axis that vanishes, index)
    new: list[int] = field(default_factory=list)  # new axes, counted in the result

    def cut(self, axis: int, start: Value, end: Value, step: int) -> None:
        """Note a slice unless it takes the whole axis."""
        if not (step == 1 and _is(start, 0) and _is(end, END)):
            self.starts.append(start)
            self.ends.append(end)
            self.axes.append(axis)
            self.steps.append(step)


def _is(value: Value, number: int) -> bool:
    return isinstance(value, int) and value == number


@lowers("StridedSlice")
def strided_slice(
    b: Builder,
    input_x: Value,
    begin: Value,
    end: Value,
    strides: Value,
    begin_mask: Value = 0,
    end_mask: Value = 0,
    ellipsis_mask: Value = 0,
    new_axis_mask: Value = 0,
    shrink_axis_mask: Value = 0,
) -> Value:
    """A slice as TensorFlow has it; bounds may be run-time numbers, strides and masks may not."""
    x = b.tensor(input_x)
    starts, ends, steps = _numbers(b, begin), _numbers(b, end), _numbers(b, strides)
    given = begin_mask, end_mask, ellipsis_mask, new_axis_mask, shrink_axis_mask
    masks = [integer(mask, "a mask") for mask in given]
    return _apply(b, x, _plan(x, list(zip(starts, ends, steps, strict=True)), masks))


def _numbers(b: Builder, value: Value) -> tuple[Value, ...]:
    """The entries of a bound: numbers, or 0-d tensors of a run-time tensor of known length."""
    if isinstance(value, np.ndarray):
        return tuple(value.reshape(-1).tolist())
    if isinstance(value, OnnxTensor):
        if not value.static:
            raise ValueError("the number of bounds must be known when the model is built")
        count = moderate(value.shape[0] if value.shape else 1, "the number of bounds", _MOST_BOUNDS)
        places = [np.asarray(i, np.int64) for i in range(count)]
        return tuple(b.op("Gather", b.op("Reshape", value, (-1,)), place) for place in places)
    return tuple(value) if isinstance(value, tuple) else (value,)


def _plan(x: OnnxTensor, bounds: list[tuple[Value, Value, Value]], masks: list[int]) -> _SlicePlan:
    begin_mask, end_mask, ellipsis_mask, new_axis_mask, shrink_mask = masks
    plan = _SlicePlan()
    axis = kept = 0  # in the input; in the result
    for bit, (start, end, step) in enumerate(bounds):
        if ellipsis_mask >> bit & 1:
            later = [k for k in range(bit + 1, len(bounds)) if not new_axis_mask >> k & 1]
            skipped = max(0, x.rank - axis - len(later))
            axis, kept = axis + skipped, kept + skipped
        elif new_axis_mask >> bit & 1:
            plan.new.append(kept)
            kept += 1
        elif shrink_mask >> bit & 1:
            plan.picks.append((axis, start))
            axis += 1
        else:
            step = _stride(step)
            start = (0 if step > 0 else END) if begin_mask >> bit & 1 else start
            last = END if step > 0 else START
            end = last if end_mask >> bit & 1 else _whole(x, axis, end, step)
            plan.cut(axis, start, end, step)
            axis, kept = axis + 1, kept + 1
    return plan


def _stride(step: Value) -> int:
    if not isinstance(step, int) or step == 0:
        raise ValueError(f"a stride must be a constant other than 0, not {step}")
    return step


def _whole(x: OnnxTensor, axis: int, end: Value, step: int) -> Value:
    """An end at or beyond a known size as the end."""
    size = x.shape[axis] if x.shape is not None and axis < len(x.shape) else -1
    return END if isinstance(end, int) and step > 0 and 0 <= size <= end else end


def _apply(b: Builder, x: OnnxTensor, plan: _SlicePlan) -> OnnxTensor:
    if plan.axes:
        bounds = b.ints(plan.starts), b.ints(plan.ends)
        x = b.op("Slice", x, *bounds, tuple(plan.axes), tuple(plan.steps))
    for axis, at in reversed(plan.picks):
        x = b.op("Gather", x, np.asarray(at, np.int64) if isinstance(at, int) else at, axis=axis)
    return b.op("Unsqueeze", x, tuple(plan.new)) if plan.new else x


@lowers("Slice")
def slice_by_size(b: Builder, input: Value, begin: Value, size: Value) -> Value:
    """A part from `begin` on, of `size`; -1 means up to the end."""
    starts, sizes = _numbers(b, begin), _numbers(b, size)
    ends = [_end(b, start, count) for start, count in zip(starts, sizes, strict=True)]
    return b.op("Slice", b.tensor(input), b.ints(starts), b.ints(ends), tuple(range(len(ends))))


def _end(b: Builder, start: Value, count: Value) -> Value:
    if _is(count, -1):
        return END
    if isinstance(start, int) and isinstance(count, int):
        return start + count
    return b.op("Add", b.tensor(start), b.tensor(count))


@lowers("Narrow", "NarrowView")
def narrow(b: Builder, input: Value, dim: Value, start: Value, length: Value) -> Value:
    """A part of one axis."""
    x, first = b.tensor(input), b.ints((start,))
    return b.op("Slice", x, first, b.ints((_end(b, start, length),)), (integer(dim, "dim"),))


@lowers("SliceExt", "SliceExtView")
def slice_ext(
    b: Builder, input: Value, dim: Value, start: Value, end: Value, step: Value = 1
) -> Value:
    """A part of one axis, with a step."""
    x, first = b.tensor(input), b.ints((0 if start is None else start,))
    last = b.ints((END if end is None else end,))
    return b.op("Slice", x, first, last, (integer(dim, "dim"),), b.ints((step,)))
