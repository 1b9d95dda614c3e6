"""Gathering, slicing and scattering by indices."""

from __future__ import annotations

import numpy as np

from ..mindir.graph import TensorType
from .arguments import axis_of, integer, integers, is_number, moderate
from .builder import Builder, Tensor, Value
from .math import result_dtype, where
from .registry import lowers
from .shape import dims, flattened

_INT64 = np.dtype(np.int64)
_END = np.iinfo(np.int64).max
_START = np.iinfo(np.int64).min


def index(b: Builder, value: Value) -> Tensor:
    """Indices as ONNX takes them: int32 or int64."""
    tensor = b.tensor(value)
    return tensor if tensor.dtype in (np.int32, np.int64) else b.cast(tensor, _INT64)


@lowers("Gather", "SparseGatherV2")
def gather(b: Builder, input_params: Value, input_indices: Value, axis: Value = 0, batch_dims: Value = 0) -> Value:
    """The slices of input_params along an axis; the first batch_dims axes go together."""
    x, indices = b.tensor(input_params), index(b, input_indices)
    at, batch = integer(axis, "the axis"), integer(batch_dims, "batch_dims")
    if not batch:
        return b.op("Gather", x, indices, axis=at)
    at, batch = axis_of(at, x.rank), axis_of(batch, indices.rank + 1)
    return _gather_in_batches(b, x, indices, at, batch)


def _gather_in_batches(b: Builder, x: Tensor, indices: Tensor, axis: int, batch: int) -> Tensor:
    axes = list(range(x.rank))
    front = b.op("Transpose", x, perm=[*axes[:batch], axis, *axes[batch:axis], *axes[axis + 1:]])
    last = b.op("Unsqueeze", b.cast(indices, _INT64), (-1,))
    found: Tensor = b.op("GatherND", front, last, batch_dims=batch)
    own, between = indices.rank - batch, axis - batch
    moved = [*range(batch), *range(batch + own, batch + own + between), *range(batch, batch + own),
             *range(batch + own + between, batch + own + x.rank - batch - 1)]
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
    return b.op("GatherND", b.tensor(input_x), b.cast(b.tensor(indices), _INT64))


@lowers("RepeatInterleaveInt")
def repeat_interleave(b: Builder, input: Value, repeats: Value, dim: Value = None, output_size: Value = None) -> Value:
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
        rows = b.op("Div", b.op("Range", 0, b.op("Mul", size, times), 1, type=TensorType(_INT64, (-1,))), times)
    return b.op("Gather", x, rows, axis=at)


@lowers("RepeatInterleaveTensor")
def repeat_interleave_tensor(b: Builder, input: Value, repeats: Value, dim: Value = None,
                             output_size: Value = None) -> Value:
    """Each slice along dim as often as its number says."""
    x, at = b.tensor(input), 0 if dim is None else integer(dim, "dim")
    x = flattened(b, x) if dim is None else x
    ends = b.op("CumSum", b.cast(index(b, repeats), _INT64), np.asarray(0, np.int64))
    total = b.op("ReduceMax", ends, keepdims=0)
    steps = b.op("Range", 0, total, 1, type=TensorType(_INT64, (-1,)))
    passed = b.op("LessOrEqual", ends, b.op("Unsqueeze", steps, (1,)))
    return b.op("Gather", x, b.op("ReduceSum", b.cast(passed, _INT64), (1,), keepdims=0), axis=at)


@lowers("ReverseV2")
def reverse(b: Builder, input: Value, axis: Value) -> Value:
    """The order along each axis turned round."""
    axes = integers(axis, "the axis")
    count = len(axes)
    return b.op("Slice", b.tensor(input), (-1,) * count, (_START,) * count, axes, (-1,) * count) if axes else input


@lowers("Roll")
def roll(b: Builder, input: Value, shifts: Value, dims_: Value = None) -> Value:
    """The elements shifted along axes, those that leave coming back at the start."""
    x = b.tensor(input)
    axes, steps = integers(dims_, "dims"), integers(shifts, "shifts")
    if not axes:
        return b.op("Reshape", _rolled(b, flattened(b, x), steps[0], 0), b.op("Shape", x))
    for axis, step in zip(axes, steps, strict=True):
        x = _rolled(b, x, step, axis)
    return x


def _rolled(b: Builder, x: Tensor, step: int, axis: int) -> Tensor:
    size = x.shape[axis] if x.shape is not None else -1
    step = step % size if size > 0 else step
    if not step:
        return x
    end = b.op("Slice", x, (-step,), (_END,), (axis,))
    start = b.op("Slice", x, (0,), (-step,), (axis,))
    result: Tensor = b.op("Concat", end, start, axis=axis, type=TensorType(x.dtype, x.shape))
    return result


@lowers("OneHot", "OneHotExt")
def one_hot(b: Builder, indices: Value, depth: Value, on_value: Value = 1, off_value: Value = 0,
            axis: Value = -1) -> Value:
    """A new axis that is on at the index and off elsewhere, everywhere for an index out of range."""
    ids = b.cast(index(b, indices), _INT64)
    at = axis_of(integer(axis, "the axis"), ids.rank + 1)
    count = moderate(integer(depth, "the depth"), "the depth")
    steps = np.arange(count, dtype=np.int64).reshape((count,) + (1,) * (ids.rank - at))
    hit = b.op("Equal", b.op("Unsqueeze", ids, (at,)), steps)
    return where(b, hit, on_value, off_value, result_dtype(b, on_value))
