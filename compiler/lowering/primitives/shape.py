"""Shapes: tensors reshaped, permuted, repeated and joined; no element is computed."""

from __future__ import annotations

import numpy as np

from ...element_types.value_types import TensorType
from ..builder import INT64, Builder, Value, axis_of, dims, integer, integers, lowers, reshape


@lowers("Reshape", "View")
def reshape_primitive(b: Builder, input: Value, shape: Value) -> Value:
    """input in the shape given, of which one dimension may be -1."""
    fixed = isinstance(shape, tuple) and all(isinstance(size, int) for size in shape)
    if isinstance(input, np.ndarray) and fixed:
        return input.reshape(shape)
    return reshape(b, b.tensor(input), shape)


@lowers("ViewAs")
def view_as(b: Builder, input: Value, other: Value) -> Value:
    """input in the shape of other."""
    return reshape(b, b.tensor(input), b.op("Shape", b.tensor(other)))


@lowers("Flatten")
def flatten(b: Builder, input_x: Value) -> Value:
    """All axes but the first become one."""
    return b.op("Flatten", b.tensor(input_x), axis=1)


@lowers("FlattenExt")
def flatten_ext(b: Builder, input: Value, start_dim: Value = 0, end_dim: Value = -1) -> Value:
    """The axes from start_dim to end_dim become one."""
    x = b.tensor(input)
    if x.rank == 0:
        return b.op("Reshape", x, (1,))
    first = axis_of(integer(start_dim, "start_dim"), x.rank)
    last = axis_of(integer(end_dim, "end_dim"), x.rank)
    sizes = dims(b, x)
    return x if first == last else reshape(b, x, (*sizes[:first], -1, *sizes[last + 1 :]))


@lowers("Transpose", "TransposeView")
def transpose(b: Builder, input: Value, dims: Value) -> Value:
    """The axes in another order."""
    perm = integers(dims, "the order of axes")
    if isinstance(input, np.ndarray):
        return input.transpose(perm)
    return b.op("Transpose", input, perm=[axis % len(perm) for axis in perm])


@lowers("TransposeExtView")
def transpose_ext(b: Builder, input: Value, dim0: Value, dim1: Value) -> Value:
    """Two axes change places."""
    x = b.tensor(input)
    perm = list(range(x.rank))
    first, second = axis_of(integer(dim0, "dim0"), x.rank), axis_of(integer(dim1, "dim1"), x.rank)
    perm[first], perm[second] = second, first
    return b.op("Transpose", x, perm=perm)


@lowers("TExt")
def transposed(b: Builder, input: Value) -> Value:
    """All axes in reverse."""
    x = b.tensor(input)
    return b.op("Transpose", x, perm=list(reversed(range(x.rank))))


@lowers("ExpandDims", "ExpandDimsView")
def expand_dims(b: Builder, input_x: Value, axis: Value) -> Value:
    """A new axis of size 1."""
    axes = integers(axis, "the axis")
    if isinstance(input_x, np.ndarray):
        return np.expand_dims(input_x, axes)
    x = b.tensor(input_x)
    if x.shape is None:
        return b.op("Unsqueeze", x, axes)
    new, sizes = {at % (x.rank + len(axes)) for at in axes}, iter(x.shape)
    if len(new) < len(axes):
        raise ValueError(f"the axes {list(axes)} are not all different")
    shape = tuple(1 if at in new else next(sizes) for at in range(x.rank + len(axes)))
    return b.op("Unsqueeze", x, axes, type=TensorType(x.dtype, shape))


@lowers("Squeeze")
def squeeze(b: Builder, input: Value, axis: Value = None) -> Value:
    """Without the axes given, or without all of size 1."""
    x, axes = b.tensor(input), integers(axis, "the axis")
    if not axes:
        return b.op("Squeeze", x)
    if x.shape is None:
        return b.op("Squeeze", x, axes)
    left = {at % x.rank for at in axes}
    shape = tuple(size for at, size in enumerate(x.shape) if at not in left)
    return b.op("Squeeze", x, axes, type=TensorType(x.dtype, shape))


@lowers("BroadcastTo", "BroadcastToView")
def broadcast_to(b: Builder, input: Value, shape: Value) -> Value:
    """input repeated to a shape; -1 keeps a dimension."""
    if isinstance(shape, tuple):
        shape = tuple(1 if size == -1 else size for size in shape)
    return b.op("Expand", b.tensor(input), b.cast(b.tensor(shape), INT64))


@lowers("ExpandAs")
def expand_as(b: Builder, input: Value, other: Value) -> Value:
    """input repeated to the shape of other."""
    return b.op("Expand", b.tensor(input), b.op("Shape", b.tensor(other)))


@lowers("Tile", "Repeat")
def tile(b: Builder, x: Value, multiples: Value) -> Value:
    """x repeated along each axis; the shorter of the two gets leading ones."""
    x = b.tensor(x)
    times = multiples if isinstance(multiples, tuple) else integers(multiples, "multiples")
    missing = len(times) - x.rank
    if missing > 0:
        x = b.op("Unsqueeze", x, tuple(range(missing)))
    return b.op("Tile", x, b.tensor((1,) * -missing + tuple(times)))


@lowers("Concat")
def concat(b: Builder, tensors: Value, axis: Value = 0) -> Value:
    """A tuple of tensors joined along an axis."""
    return b.op("Concat", *(b.tensor(item) for item in tensors), axis=integer(axis, "the axis"))


@lowers("Stack", "StackExt", "Pack")
def stack(b: Builder, tensors: Value, axis: Value = 0) -> Value:
    """A tuple of tensors joined along a new axis."""
    at = integer(axis, "the axis")
    return b.op("Concat", *(b.op("Unsqueeze", b.tensor(item), (at,)) for item in tensors), axis=at)


@lowers("TileSize")
def tile_size(b: Builder, shape: Value, out_shape: Value, ndim: Value) -> Value:
    """The repetitions of each axis from one shape to another."""
    pairs = list(zip(shape, out_shape, strict=True))
    if all(isinstance(size, int) for pair in pairs for size in pair):
        return tuple(out // size for size, out in pairs)
    return tuple(
        b.op("Div", b.cast(out, INT64), b.cast(size, INT64), type=TensorType(INT64, ()))
        for size, out in pairs
    )


@lowers("Shape")
def shape_tuple(b: Builder, x: Value) -> Value:
    """The shape as a tuple of Python ints, each a constant where the dimension is known."""
    return tuple(x.shape) if isinstance(x, np.ndarray) else dims(b, x)


@lowers("TensorShape")
def tensor_shape(b: Builder, x: Value) -> Value:
    """The shape as a 1-d tensor."""
    return b.op("Shape", b.tensor(x))


@lowers("Size")
def size(b: Builder, x: Value) -> Value:
    """The number of elements."""
    if isinstance(x, np.ndarray):
        return int(x.size)
    return b.op("ReduceProd", b.op("Shape", x), keepdims=0)


@lowers("Rank")
def rank(b: Builder, x: Value) -> Value:
    """The number of dimensions."""
    return x.ndim if isinstance(x, np.ndarray) else x.rank
