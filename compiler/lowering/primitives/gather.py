"""Gathering: elements and slices picked by indices, repeated, reversed or shifted."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ...element_types.value_types import TensorType
from ..builder import (
    END,
    INT64,
    START,
    Builder,
    OnnxTensor,
    Value,
    axis_of,
    dims,
    flattened,
    integer,
    integers,
    is_number,
    lowers,
    moderate,
    result_dtype,
    steps,
    where,
)


def index(b: Builder, value: Value) -> OnnxTensor:
    """Indices as ONNX takes them: int32 or int64."""
    tensor = b.tensor(value)
    return tensor if tensor.dtype in (np.int32, np.int64) else b.cast(tensor, INT64)


@lowers("Gather", "SparseGatherV2")
def gather(
    b: Builder, input_params: Value, input_indices: Value, axis: Value = 0, batch_dims: Value = 0
) -> Value:
    """The slices of input_params along an axis; the first batch_dims axes go together."""
    x, indices = b.tensor(input_params), index(b, input_indices)
    at, batch = integer(axis, "the axis"), integer(batch_dims, "batch_dims")
    if not batch:
        return b.op("Gather", x, indices, axis=at)
    at, batch = axis_of(at, x.rank), axis_of(batch, indices.rank + 1)
    return _gather_in_batches(b, x, indices, at, batch)


def _gather_in_batches(
    b: Builder, x: OnnxTensor, indices: OnnxTensor, axis: int, batch: int
) -> OnnxTensor:
    axes = list(range(x.rank))
    front = b.op("Transpose", x, perm=[*axes[:batch], axis, *axes[batch:axis], *axes[axis + 1 :]])
    last = b.op("Unsqueeze", b.cast(indices, INT64), (-1,))
    found = b.op("GatherND", front, last, batch_dims=batch)
    own, between = indices.rank - batch, axis - batch
    moved = [
        *range(batch),
        *range(batch + own, batch + own + between),
        *range(batch, batch + own),
        *range(batch + own + between, batch + own + x.rank - batch - 1),
    ]
    return found if moved == sorted(moved) else b.op("Transpose", found, perm=moved)


@lowers("Embedding")
def embedding(b: Builder, input: Value, weight: Value, *notes: Value) -> Value:
    """Rows of the weight; what follows concerns training."""
    return b.op("Gather", b.tensor(weight), index(b, input), axis=0)


@lowers("IndexSelect")
def index_select(b: Builder, input: Value, dim: Value, index_: Value) -> Value:
    """Slices along dim."""
    return b.op("Gather", b.tensor(input), index(b, index_), axis=integer(dim, "dim"))


@lowers("SelectExtView")
def select_ext(b: Builder, input: Value, dim: Value, index_: Value) -> Value:
    """One slice along dim, without it."""
    at = np.asarray(index_, np.int64) if is_number(index_) else index(b, index_)
    return b.op("Gather", b.tensor(input), at, axis=integer(dim, "dim"))


@lowers("GatherD")
def gather_elements(b: Builder, x: Value, dim: Value, index_: Value) -> Value:
    """One element along dim per index."""
    return b.op("GatherElements", b.tensor(x), index(b, index_), axis=integer(dim, "dim"))


@lowers("GatherNd")
def gather_nd(b: Builder, input_x: Value, indices: Value) -> Value:
    """The slices that the last axis of the indices names."""
    return b.op("GatherND", b.tensor(input_x), b.cast(b.tensor(indices), INT64))


@lowers("RepeatInterleaveInt")
def repeat_interleave(
    b: Builder, input: Value, repeats: Value, dim: Value = None, output_size: Value = None
) -> Value:
    """Each slice along dim so many times; without dim the flattened elements."""
    x, times = b.tensor(input), integer(repeats, "repeats")
    at = 0 if dim is None else integer(dim, "dim")
    if dim is None:
        x = flattened(b, x)
    size = dims(b, x)[at]
    if isinstance(size, int):
        moderate(size * max(times, 1), "the number of rows")
        rows: Value = np.repeat(np.arange(size), times)
    else:
        rows = b.op("Div", steps(b, b.op("Mul", size, times)), times)
    return b.op("Gather", x, rows, axis=at)


@lowers("RepeatInterleaveTensor")
def repeat_interleave_tensor(
    b: Builder, input: Value, repeats: Value, dim: Value = None, output_size: Value = None
) -> Value:
    """Each slice along dim as often as its number says."""
    x, at = b.tensor(input), 0 if dim is None else integer(dim, "dim")
    x = flattened(b, x) if dim is None else x
    ends = b.op("CumSum", b.cast(index(b, repeats), INT64), np.asarray(0, np.int64))
    line = steps(b, b.op("ReduceMax", ends, keepdims=0))
    passed = b.op("LessOrEqual", ends, b.op("Unsqueeze", line, (1,)))
    return b.op("Gather", x, b.op("ReduceSum", b.cast(passed, INT64), (1,), keepdims=0), axis=at)


@lowers("ReverseV2")
def reverse(b: Builder, input: Value, axis: Value) -> Value:
    """The elements along each axis in reverse."""
    axes = integers(axis, "the axis")
    count = len(axes)
    if not axes:
        return input
    return b.op("Slice", b.tensor(input), (-1,) * count, (START,) * count, axes, (-1,) * count)


@lowers("Roll")
def roll(b: Builder, input: Value, shifts: Value, dims_: Value = None) -> Value:
    """The elements shifted along axes, those that leave coming back at the start."""
    x = b.tensor(input)
    axes, counts = integers(dims_, "dims"), integers(shifts, "shifts")
    if not axes:
        return b.op("Reshape", _rolled(b, flattened(b, x), counts[0], 0), b.op("Shape", x))
    for axis, count in zip(axes, counts, strict=True):
        x = _rolled(b, x, count, axis)
    return x


def _rolled(b: Builder, x: OnnxTensor, step: int, axis: int) -> OnnxTensor:
    size = x.shape[axis] if x.shape is not None else -1
    step = step % size if size > 0 else step
    if not step:
        return x
    end = b.op("Slice", x, (-step,), (END,), (axis,))
    start = b.op("Slice", x, (0,), (-step,), (axis,))
    return b.op("Concat", end, start, axis=axis, type=TensorType(x.dtype, x.shape))


@lowers("OneHot", "OneHotExt")
def one_hot(
    b: Builder,
    indices: Value,
    depth: Value,
    on_value: Value = 1,
    off_value: Value = 0,
    axis: Value = -1,
) -> Value:
    """A new axis that is on at the index and off elsewhere; all off for an index out of range."""
    ids = b.cast(index(b, indices), INT64)
    at = axis_of(integer(axis, "the axis"), ids.rank + 1)
    count = moderate(integer(depth, "the depth"), "the depth")
    steps = np.arange(count, dtype=np.int64).reshape((count,) + (1,) * (ids.rank - at))
    hit = b.op("Equal", b.op("Unsqueeze", ids, (at,)), steps)
    return where(b, hit, on_value, off_value, result_dtype(b, on_value))


@lowers("GetTupleIndexInfo")
def tuple_index_info(
    b: Builder,
    x: Value,
    position: Value,
    *indices: Value,
    tuple_index_types: Value,
    expand_dims_cnt: int = 0,
) -> Value:
    """The gathering of x[i, j, ...]: (position, broadcast shape, index shape, result shape).

    Only indices that are all tensors (type 17) are supported. MindSpore writes this where
    dimensions are unknown.
    """
    used = [code for code in tuple_index_types if code]
    if set(used) != {17} or expand_dims_cnt:
        raise ValueError(
            "indexing with slices and tensors at once, in unknown dimensions, is not supported"
        )
    shapes = [dims(b, b.tensor(item)) for item in indices[: len(used)]]
    rank = max(map(len, shapes))
    padded = [(1,) * (rank - len(shape)) + shape for shape in shapes]
    broadcast = tuple(_broadcast(b, sizes) for sizes in zip(*padded, strict=True))
    return 0, broadcast, broadcast, broadcast


def _broadcast(b: Builder, sizes: tuple[Value, ...]) -> Value:
    """The one size that is not 1; of sizes known at run time only, the largest."""
    known_sizes = [size for size in sizes if isinstance(size, int) and size != 1]
    open_sizes = [size for size in sizes if isinstance(size, OnnxTensor)]
    if known_sizes or not open_sizes:
        return known_sizes[0] if known_sizes else 1
    if len(sizes) == 1:
        return open_sizes[0]
    return replace(b.op("Max", *open_sizes, 1), shape=(), scalar=True)
