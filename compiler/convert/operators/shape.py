"""Shapes: other shapes of the same elements, parts of them, and several as one."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ...element_types import dtypes
from ...element_types.value_types import TensorType, TupleType
from ..mindir.values import MindirValue, scalar_type
from .node_conversion import NodeConversion
from .registry import converts


@converts("Reshape")
def reshape(
    c: NodeConversion, x: MindirValue, shape: MindirValue, *, allowzero: int = 0
) -> MindirValue:
    """To sizes that are known but for one, or that the model computes."""
    if c.open_sizes <= 1:
        return c.apply("Reshape", x, c.shape)
    if shape.constant is None:
        return c.apply("Reshape", x, sizes_of(c, shape, c.rank))
    sizes = [
        size_of(c, x, axis) if size == 0 and not allowzero else size
        for axis, size in enumerate(c.numbers(shape, "shape"))
    ]
    return c.apply("Reshape", x, c.scalars(sizes))


@converts("Unsqueeze")
def unsqueeze(
    c: NodeConversion,
    x: MindirValue,
    given: MindirValue | None = None,
    *,
    axes: Sequence[int] = (),
) -> MindirValue:
    """With axes of one element more."""
    places = axes if given is None else c.numbers(given, "axes")
    if c.open_sizes <= 1:
        return c.apply("Reshape", x, c.shape)
    shape = list(x.shape)
    for axis in sorted(place % c.rank for place in places):
        shape.insert(axis, 1)
        x = c.apply("ExpandDims", x, axis, type=TensorType(x.dtype, tuple(shape)))
    return x


@converts("Squeeze")
def squeeze(
    c: NodeConversion,
    x: MindirValue,
    given: MindirValue | None = None,
    *,
    axes: Sequence[int] = (),
) -> MindirValue:
    """Without axes of one element."""
    if c.open_sizes <= 1:
        return c.apply("Reshape", x, c.shape)
    places = axes if given is None else c.numbers(given, "axes")
    return c.apply("Squeeze", x, tuple(place % x.rank for place in places))


@converts("Flatten")
def flatten(c: NodeConversion, x: MindirValue, *, axis: int = 1) -> MindirValue:
    """A matrix: the axes before `axis`, and those behind."""
    if c.open_sizes <= 1:
        return c.apply("Reshape", x, c.shape)
    if axis % x.rank == 1:
        return c.apply("FlattenExt", x, 1, -1)
    raise ValueError("more than one size of its result is open: fix them by --inputShape")


@converts("Shape")
def shape_of(
    c: NodeConversion, x: MindirValue, *, start: int = 0, end: int | None = None
) -> MindirValue:
    """The sizes as a tensor."""
    whole = TensorType(c.type.dtype, (x.rank,))
    found = c.apply("TensorShape", x, type=whole)
    first, last, _ = slice(start, end).indices(x.rank)
    if (first, last) == (0, x.rank):
        return found
    return sliced(c, found, {0: (first, last, 1)}, c.type)


@converts("Size")
def size(c: NodeConversion, x: MindirValue) -> MindirValue:
    """The number of elements."""
    sizes = c.apply("TensorShape", x, type=TensorType(c.type.dtype, (x.rank,)))
    return c.apply("ReduceProd", sizes, (), False)


@converts("Transpose")
def transpose(c: NodeConversion, x: MindirValue, *, perm: Sequence[int] = ()) -> MindirValue:
    """By default all axes in the other order."""
    return c.apply("Transpose", x, tuple(perm) or tuple(reversed(range(x.rank))))


@converts("Concat")
def concat(c: NodeConversion, *values: MindirValue, axis: int) -> MindirValue:
    """Along one axis."""
    return c.apply("Concat", c.builder.tuple(values), axis)


@converts("Split")
def split(
    c: NodeConversion,
    x: MindirValue,
    sizes: MindirValue | None = None,
    *,
    axis: int = 0,
    num_outputs: int = 0,
) -> list[MindirValue]:
    """Parts of equal or of given sizes."""
    if sizes is not None:
        c.numbers(sizes, "split")
    parts = [kind.shape[axis] for kind in c.types if kind.shape is not None]
    if len(parts) == len(c.types) and len(set(parts)) == 1 and parts[0] >= 0:
        both = c.apply("Split", x, axis, len(parts), type=TupleType(tuple(c.types)))
        return [c.builder.item(both, index) for index in range(len(parts))]
    begins = np.cumsum([0, *parts])
    return [
        sliced(c, x, {axis % x.rank: (int(begins[index]), int(begins[index + 1]), 1)}, kind)
        for index, kind in enumerate(c.types)
    ]


@converts("Slice")
def slice_(
    c: NodeConversion,
    x: MindirValue,
    starts: MindirValue,
    ends: MindirValue,
    axes: MindirValue | None = None,
    steps: MindirValue | None = None,
) -> MindirValue:
    """Ranges of some axes, with steps."""
    if starts.constant is None or ends.constant is None:
        return _sliced_between(c, x, starts, ends, axes, steps)
    begin, end = c.numbers(starts, "starts"), c.numbers(ends, "ends")
    places = range(len(begin)) if axes is None else c.numbers(axes, "axes")
    strides = (1,) * len(begin) if steps is None else c.numbers(steps, "steps")
    ranges = {
        axis % x.rank: (first, last, step)
        for axis, first, last, step in zip(places, begin, end, strides, strict=True)
    }
    return sliced(c, x, ranges, c.type)


def _sliced_between(
    c: NodeConversion,
    x: MindirValue,
    starts: MindirValue,
    ends: MindirValue,
    axes: MindirValue | None,
    steps: MindirValue | None,
) -> MindirValue:
    """A StridedSlice whose bounds the model computes; of the other axes all elements."""
    count = starts.shape[0]
    places = range(count) if axes is None else c.numbers(axes, "axes")
    strides = (1,) * count if steps is None else c.numbers(steps, "steps")
    if min(strides) < 1:
        raise ValueError("steps back between bounds that the model computes are not supported")
    begin: list[MindirValue | int] = [0] * x.rank
    end: list[MindirValue | int] = [0] * x.rank
    step, open_ends = [1] * x.rank, (1 << x.rank) - 1
    for index, place in enumerate(places):
        axis = place % x.rank
        begin[axis], end[axis] = (_element(c, one, index) for one in (starts, ends))
        step[axis] = strides[index]
        open_ends &= ~(1 << axis)
    bounds = (c.scalars(begin), c.scalars(end), tuple(step))
    return c.apply("StridedSlice", x, *bounds, 0, open_ends, 0, 0, 0)


def _element(c: NodeConversion, bounds: MindirValue, index: int) -> MindirValue | int:
    """One of the bounds of a slice, as a number."""
    if bounds.constant is not None:
        return min(c.numbers(bounds, "bounds")[index], (1 << 31) - 1)
    if bounds.shape == (1,):
        return c.scalar(bounds)
    single = TensorType(bounds.dtype, ())
    return c.scalar(c.apply("Gather", bounds, np.asarray(index), 0, 0, type=single))


def sliced(
    c: NodeConversion,
    x: MindirValue,
    ranges: dict[int, tuple[int, int, int]],
    kind: TensorType,
) -> MindirValue:
    """A StridedSlice of (begin, end, step) by axis; bounds may lie outside, as in Python."""
    begins, ends, steps = [], [], []
    open_begins = open_ends = 0
    for axis, size in enumerate(x.shape):
        first, last, step = ranges.get(axis, (0, size, 1))
        if axis not in ranges or size < 0 and last >= 1 << 30:
            open_ends |= 1 << axis
        if step < 0 and (last < -(1 << 30) or size >= 0 and last < -size):
            open_ends |= 1 << axis
        if size >= 0:
            first, last, _ = slice(first, last, step).indices(size)
        begins.append(first)
        ends.append(max(-(1 << 31), min(last, (1 << 31) - 1)))
        steps.append(step)
    where = (tuple(begins), tuple(ends), tuple(steps))
    return c.apply("StridedSlice", x, *where, open_begins, open_ends, 0, 0, 0, type=kind)


@converts("Expand")
def expand(c: NodeConversion, x: MindirValue, shape: MindirValue) -> MindirValue:
    """To the sizes of the result."""
    if c.open_sizes == 0:
        return c.apply("BroadcastTo", x, c.shape)
    if shape.constant is not None:
        sizes = c.numbers(shape, "shape")
        own = (0,) * (len(sizes) - x.rank) + x.shape
        kept = zip(sizes, own, strict=False)
        return c.apply("BroadcastTo", x, tuple(-1 if n == 1 and o != 0 else n for n, o in kept))
    if shape.shape != (c.rank,):
        raise ValueError("the sizes of its result are open: fix them by --inputShape")
    own = (1,) * (c.rank - x.rank) + x.shape
    wanted = sizes_of(c, shape, c.rank)
    if -1 in own:
        return _widened(c, x, wanted)
    items = [-1 if size > 1 else c.builder.item(wanted, axis) for axis, size in enumerate(own)]
    return c.apply("BroadcastTo", x, c.scalars(items))


def _widened(c: NodeConversion, x: MindirValue, sizes: MindirValue) -> MindirValue:
    """x times ones: a size of 1 widens nothing, while BroadcastTo refuses it for an axis of more
    elements.
    """
    logical = x.dtype == np.bool_
    kind = dtypes.to_type_id(x.dtype)
    blank = TensorType(x.dtype, (-1,) * c.rank)
    ones = c.apply("FillScalar", sizes, True if logical else 1, kind, type=blank)
    return c.apply("LogicalAnd" if logical else "Mul", x, ones)


@converts("Identity")
def identity(c: NodeConversion, x: MindirValue) -> MindirValue:
    """The same value."""
    return x


@converts("Pad")
def pad(
    c: NodeConversion,
    x: MindirValue,
    pads: MindirValue | None = None,
    value: MindirValue | None = None,
    axes: MindirValue | None = None,
    *,
    mode: str = "constant",
) -> MindirValue:
    """An edge around some axes."""
    if pads is None:
        raise ValueError("'pads' is missing")
    numbers = c.numbers(pads, "pads")
    places = range(x.rank) if axes is None else c.numbers(axes, "axes")
    half = len(numbers) // 2
    edges = {axis % x.rank: (numbers[i], numbers[half + i]) for i, axis in enumerate(places)}
    last_first = [edges.get(axis, (0, 0)) for axis in reversed(range(x.rank))]
    while len(last_first) > 1 and last_first[-1] == (0, 0):
        last_first.pop()
    paddings = tuple(size for pair in last_first for size in pair)
    names = {"constant": "constant", "reflect": "reflect", "edge": "edge", "wrap": "circular"}
    filling = np.asarray(0, x.dtype) if value is None else value
    given = (filling,) if mode == "constant" else (None,)
    return c.apply("PadV3", x, paddings, *given, mode=names[mode], paddings_contiguous=True)


def sizes_of(c: NodeConversion, shape: MindirValue, rank: int) -> MindirValue:
    """The elements of a tensor of sizes, which the model computes, as a tuple of numbers."""
    return c.apply("TensorToTuple", shape, type=TupleType((scalar_type(),) * rank))


def size_of(c: NodeConversion, x: MindirValue, axis: int) -> MindirValue | int:
    """The size of one axis, as a number."""
    if x.shape[axis] >= 0:
        return x.shape[axis]
    sizes = c.apply("Shape", x, type=TupleType((scalar_type(),) * x.rank))
    return c.builder.item(sizes, axis)


@converts("ReverseSequence")
def reverse_sequence(
    c: NodeConversion,
    x: MindirValue,
    lengths: MindirValue,
    *,
    batch_axis: int = 1,
    time_axis: int = 0,
) -> MindirValue:
    """The first elements of each sequence in reverse, so many as its length says."""
    return c.apply("ReverseSequence", x, lengths, seq_dim=time_axis, batch_dim=batch_axis)
