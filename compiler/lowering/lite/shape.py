"""Shapes in .ms files: as MindIR's primitives, whose numbers may be tensors here."""

from __future__ import annotations

import numpy as np

from ...element_types.value_types import TensorType
from ..builder import INT64, Builder, OnnxTensor, Value, integer, integers, lowers, reshape
from .layout import permuted
from .results import as_mindir, kept, result_count


def numbers(value: Value, what: str) -> Value:
    """Constant numbers as a tuple; those of run time stay a tensor."""
    return value if isinstance(value, OnnxTensor) else integers(value, what)


@lowers("Lite.Reshape")
def reshaped(b: Builder, x: Value, shape: Value) -> Value:
    """x in another shape, which may be known at run time only; 0 keeps a size of x."""
    if isinstance(shape, OnnxTensor):
        return b.op("Reshape", b.tensor(x), b.cast(shape, INT64))
    tensor, sizes = b.tensor(x), integers(shape, "the shape")
    if 0 in sizes and tensor.shape is not None and tensor.static:
        own = (*tensor.shape, *[0] * len(sizes))
        sizes = tuple(size or own[at] for at, size in enumerate(sizes))
    if 0 in sizes:
        return b.op("Reshape", tensor, sizes)
    return reshape(b, tensor, sizes)


@lowers("Lite.Transpose")
def transposed(b: Builder, x: Value, order: Value = ()) -> Value:
    """The axes in another order; without one, in reverse. As MindSpore Lite, it leaves a tensor of
    another rank than the order has as it is.
    """
    axes = list(integers(order, "the order of axes"))
    if isinstance(x, np.ndarray):
        return x.transpose(axes or None)
    if x.shape is not None and axes and len(axes) != len(x.shape):
        return x
    axes = axes or list(range(x.rank))[::-1]
    return permuted(b, x, [axis % len(axes) for axis in axes])


@lowers("Lite.FormatTranspose")
def format_transposed(b: Builder, x: Value, *, src_format: str, dst_format: str) -> Value:
    """An image with its channels at another place."""
    orders = {("NHWC", "NCHW"): [0, 3, 1, 2], ("NCHW", "NHWC"): [0, 2, 3, 1]}
    if src_format == dst_format:
        return x
    if (src_format, dst_format) not in orders:
        raise ValueError(f"{src_format} to {dst_format} is not supported")
    return permuted(b, b.tensor(x), orders[src_format, dst_format])


@lowers("Lite.Flatten")
def flatten(b: Builder, x: Value, *, axis: int) -> Value:
    """ONNX's Flatten: all axes from `axis` on become one, and all before it another."""
    return b.op("Flatten", b.tensor(x), axis=axis)


@lowers("Lite.Shape")
def shape_of(b: Builder, x: Value) -> Value:
    """The shape as a tensor: a constant where all sizes are known."""
    if isinstance(x, np.ndarray):
        return np.asarray(x.shape, np.int32)
    if x.shape is not None and x.static:
        return np.asarray(x.shape, np.int32)
    return b.op("Shape", x)


@lowers("Lite.Rank")
def rank_of(b: Builder, x: Value) -> Value:
    """The number of dimensions."""
    return np.asarray(np.ndim(x) if isinstance(x, np.ndarray) else x.rank, np.int32)


@lowers("Lite.Size")
def size_of(b: Builder, x: Value) -> Value:
    """The number of elements."""
    return b.op("Size", b.tensor(x))


@lowers("Lite.ExpandDims")
def expanded(b: Builder, x: Value, axis: Value) -> Value:
    """MindIR's ExpandDims."""
    return as_mindir(b, "ExpandDims", x, integers(axis, "the axis"))


@lowers("Lite.Unsqueeze")
def unsqueezed(b: Builder, x: Value, *, axis: Value) -> Value:
    """MindIR's ExpandDims; the axes are an attribute."""
    return as_mindir(b, "ExpandDims", x, axis)


@lowers("Lite.Squeeze")
def squeezed(b: Builder, x: Value, axes: Value = None, *, axis: Value) -> Value:
    """MindIR's Squeeze."""
    if isinstance(x, np.ndarray):
        return x.squeeze(tuple(axis) or None)
    return as_mindir(b, "Squeeze", x, axis or integers(axes, "the axes"))


@lowers("Lite.BroadcastTo")
def broadcast(b: Builder, x: Value, sizes: Value = None, *, shape: Value) -> Value:
    """MindIR's BroadcastTo; the shape is an attribute or an input."""
    return as_mindir(b, "BroadcastTo", x, shape or numbers(sizes, "the shape"))


@lowers("Lite.TileFusion")
def tiled(b: Builder, x: Value, multiples: Value = None, *, dims: Value) -> Value:
    """ONNX's Tile; the repetitions are an input or an attribute."""
    given = dims if multiples is None else numbers(multiples, "the multiples")
    if isinstance(given, OnnxTensor):
        return b.op("Tile", b.tensor(x), b.cast(given, INT64))
    return as_mindir(b, "Tile", x, given)


@lowers("Lite.Concat")
def joined(b: Builder, *tensors: Value, axis: int) -> Value:
    """MindIR's Concat."""
    if all(isinstance(one, np.ndarray) for one in tensors):
        return np.concatenate(tensors, axis)
    return as_mindir(b, "Concat", tensors, axis)


@lowers("Lite.Stack")
def stacked(b: Builder, *tensors: Value, axis: int) -> Value:
    """MindIR's Stack."""
    if all(isinstance(one, np.ndarray) for one in tensors):
        return np.stack(tensors, axis)
    return as_mindir(b, "Stack", tensors, axis)


@lowers("Lite.Unstack")
def unstacked(b: Builder, x: Value, *, axis: int) -> Value:
    """MindIR's Unstack: as many parts as the node has results."""
    return as_mindir(b, "Unstack", x, axis, num=result_count(b, 1))


@lowers("Lite.Split")
def split(b: Builder, x: Value, *, output_num: int, size_splits: Value, axis: int) -> Value:
    """MindIR's SplitV, or Split into equal parts."""
    count = result_count(b, 1)
    if len(size_splits) == count:
        return as_mindir(b, "SplitV", x, size_splits=size_splits, split_dim=axis)
    if output_num not in (0, count):
        raise ValueError(f"{output_num} parts are made, and the node has {count} results")
    return kept(b, (b.tensor(x),) if count == 1 else as_mindir(b, "Split", x, axis, count))


@lowers("Lite.SplitWithOverlap")
def split_with_overlap(
    b: Builder,
    x: Value,
    *,
    split_dim: int,
    number_split: int,
    ratio: Value,
    extend_top: Value,
    extend_bottom: Value,
) -> Value:
    """Parts by ratios, each with some rows of its neighbours."""
    tensor = b.tensor(x)
    size = tensor.shape[split_dim] if tensor.shape is not None else -1
    whole = sum(ratio)
    if size < 0 or not whole or number_split > len(ratio):
        raise ValueError(
            f"axis {split_dim} has the size {size}, and {number_split} parts the ratios "
            f"{list(ratio)[:8]}: expected a known size, and a ratio for each part"
        )
    ends = [-(-size * int(done) // whole) for done in np.cumsum((0, *ratio))]
    parts = []
    for at in range(number_split):
        first = max(0, ends[at] - (extend_top[at] if extend_top else 0))
        last = min(size, ends[at + 1] + (extend_bottom[at] if extend_bottom else 0))
        parts.append(b.op("Slice", tensor, (first,), (last,), (split_dim,)))
    return kept(b, tuple(parts))


@lowers("Lite.Fill")
def fill(b: Builder, value: Value, shape: Value) -> Value:
    """A tensor of a shape in which each element is the value."""
    return _filled(b, value, shape)


@lowers("Lite.FillV2")
def fill_v2(b: Builder, shape: Value, value: Value) -> Value:
    """A tensor of a shape in which each element is the value."""
    return _filled(b, value, shape)


def _filled(b: Builder, value: Value, shape: Value) -> Value:
    one = b.op("Reshape", b.tensor(value), ())
    return b.op("Expand", one, b.cast(b.tensor(numbers(shape, "the shape")), INT64))


@lowers("Lite.ConstantOfShape")
def constant_of_shape(b: Builder, shape: Value, *, value: Value) -> Value:
    """A tensor of a shape in which each element is the value."""
    kind = b.result_type
    number = value[0] if value else 0.0
    dtype = kind.dtype if isinstance(kind, TensorType) else np.dtype(np.float32)
    return _filled(b, np.full((), number, dtype), shape)


@lowers("Lite.Range")
def number_range(b: Builder, *bounds: Value, start: int, limit: int, delta: int) -> Value:
    """MindIR's Range; the bounds are inputs or attributes."""
    given = bounds or (start, limit, delta)
    found = [one.reshape(-1)[0].item() if isinstance(one, np.ndarray) else one for one in given]
    found = [b.op("Reshape", one, ()) if isinstance(one, OnnxTensor) else one for one in found]
    return as_mindir(b, "Range", *found)


@lowers("Lite.OneHot")
def one_hot(
    b: Builder, indices: Value, depth: Value, on: Value, off: Value = None, *, axis: int
) -> Value:
    """ONNX's OneHot; both values may be one input, the one for other classes first."""
    values = b.tensor(on) if off is None else _pair(b, off, on)
    count = integer(depth, "the depth")
    return b.op(
        "OneHot",
        b.cast(indices, INT64),
        (count,),
        values,
        axis=axis,
        type=TensorType(values.dtype, None),
    )


def _pair(b: Builder, first: Value, second: Value) -> OnnxTensor:
    parts = (b.op("Reshape", b.tensor(one), (1,)) for one in (first, second))
    return b.op("Concat", *parts, axis=0)
