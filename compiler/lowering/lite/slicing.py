"""Slices in .ms files: MindIR's primitives, with bounds and axes as inputs."""

from __future__ import annotations

from ..builder import END, INT64, Builder, OnnxTensor, Value, integers, lowers
from .results import as_mindir
from .shape import numbers


@lowers("Lite.SliceFusion")
def sliced(b: Builder, x: Value, begin: Value, size: Value, *, axes: Value) -> Value:
    """ONNX's Slice from begin on, so many elements along each axis; -1: to the end."""
    tensor, start, count = b.tensor(x), numbers(begin, "begin"), numbers(size, "size")
    if isinstance(start, OnnxTensor) or isinstance(count, OnnxTensor):
        first, length = (b.cast(b.tensor(one), INT64) for one in (start, count))
        end = b.op("Where", b.op("Less", length, 0), END, b.op("Add", first, length))
        return b.op("Slice", tensor, first, end, *([axes] if axes else []))
    along = axes or tuple(range(len(start)))
    ends = tuple(END if n < 0 else s + n for s, n in zip(start, count, strict=True))
    return b.op("Slice", tensor, start, ends, along)


@lowers("Lite.StridedSlice")
def strided(
    b: Builder,
    x: Value,
    begin: Value,
    end: Value,
    *rest: Value,
    begin_mask: int,
    end_mask: int,
    ellipsis_mask: int,
    new_axis_mask: int,
    shrink_axis_mask: int,
) -> Value:
    """MindIR's StridedSlice; with axes (begin, end, axes, strides) it is ONNX's Slice."""
    bounds = [numbers(one, "the bounds") for one in (begin, end, *rest)]
    if len(bounds) == 4:
        first, last, axes, steps = bounds
        taken = (b.cast(b.tensor(one), INT64) for one in (first, last, axes, steps))
        return b.op("Slice", b.tensor(x), *taken)
    if len(bounds) == 2:
        bounds.append((1,) * len(integers(begin, "begin")))
    masks = (begin_mask, end_mask, ellipsis_mask, new_axis_mask, shrink_axis_mask)
    return as_mindir(b, "StridedSlice", x, *bounds, *masks)


@lowers("Lite.Crop")
def crop(b: Builder, x: Value, like: Value, *, axis: int, offsets: Value) -> Value:
    """x cut to the sizes of another tensor along all axes from `axis` on, as Caffe has it."""
    tensor, other = b.tensor(x), b.tensor(like)
    first = axis % tensor.rank
    axes = tuple(range(first, tensor.rank))
    starts = tuple(offsets) * (len(axes) if len(offsets) == 1 else 1) or (0,) * len(axes)
    sizes = b.op("Slice", b.op("Shape", other), (first,), (tensor.rank,), (0,))
    return b.op("Slice", tensor, starts, b.op("Add", sizes, b.ints(starts)), axes)


@lowers("Lite.PadFusion")
def padded(
    b: Builder,
    x: Value,
    pads: Value = None,
    value: Value = None,
    *,
    paddings: Value,
    padding_mode: str,
    constant_value: float,
) -> Value:
    """Elements added on both sides of all axes: ONNX's Pad, and MindIR's MirrorPad."""
    given = numbers(pads, "the paddings") if pads is not None else integers(_flat(paddings), "them")
    if padding_mode != "CONSTANT":
        pairs = tuple(zip(integers(given, "the paddings")[::2], given[1::2], strict=True))
        return as_mindir(b, "MirrorPad", x, pairs, mode=padding_mode)
    tensor = b.tensor(x)
    fill = b.tensor(constant_value, tensor.dtype) if value is None else b.tensor(value)
    if isinstance(given, OnnxTensor):
        rows = b.op("Reshape", b.cast(given, INT64), (-1, 2))
        ends: Value = b.op("Reshape", b.op("Transpose", rows, perm=[1, 0]), (-1,))
    else:
        ends = (*given[::2], *given[1::2])
    return b.op("Pad", tensor, ends, b.op("Reshape", fill, ()))


def _flat(rows: Value) -> tuple[int, ...]:
    return tuple(number for row in rows or () for number in row)
