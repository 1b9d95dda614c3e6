"""Tensors that are made, not computed: constants of a shape, ranges, triangles, grids."""

from __future__ import annotations

import math

import numpy as np

from ..mindir.graph import TensorType
from .arguments import dtype_of, integer, is_number, moderate
from .builder import Builder, Tensor, Value
from .math import as_dtype, result_dtype, where
from .registry import lowers
from .shape import dims

_INT64 = np.dtype(np.int64)


def filled(b: Builder, shape: Value, value: Value, dtype: np.dtype[np.generic]) -> Tensor:
    """One value in a shape, a tuple or a run-time tensor."""
    size = b.cast(b.tensor(shape if isinstance(shape, (tuple, Tensor, np.ndarray)) else (shape,)), _INT64)
    one = as_dtype(b, value.reshape(()) if isinstance(value, np.ndarray) else value, dtype)
    result: Tensor = b.op("Expand", one, size)
    return result


@lowers("Zeros", "Ones")
def zeros(b: Builder, size: Value, dtype: Value = None) -> Value:
    """Zeros or ones in a shape."""
    value = int(b.node is not None and b.node.primitive == "Ones")
    return filled(b, size, value, dtype_of(dtype, result_dtype(b, 0.0)))


@lowers("FillScalar", "FillTensor", "FillV2")
def fill(b: Builder, size: Value, value: Value, dtype: Value = None) -> Value:
    """One value in a shape."""
    return filled(b, size, value, dtype_of(dtype, result_dtype(b, value)))


@lowers("Fill")
def fill_old(b: Builder, dtype: Value, size: Value, value: Value) -> Value:
    """Fill with the dtype first."""
    return fill(b, size, value, dtype)


@lowers("ZerosLike", "OnesLike", "ZerosLikeExt", "OnesLikeExt")
def zeros_like(b: Builder, input: Value, dtype: Value = None) -> Value:
    """Zeros or ones in the shape of input."""
    value = int(b.node is not None and b.node.primitive.startswith("Ones"))
    x = b.tensor(input)
    return filled(b, b.op("Shape", x), value, dtype_of(dtype, result_dtype(b, x)))


@lowers("NewZeros", "NewOnes", "NewFull", "NewEmpty")
def new_tensor(b: Builder, input: Value, size: Value, *rest: Value) -> Value:
    """Zeros, ones or (NewFull) a value in a shape, in the dtype of input unless another is named; empty means zeros."""
    primitive = b.node.primitive if b.node else ""
    given, dtype = (rest[0], rest[1:]) if primitive == "NewFull" else (int(primitive == "NewOnes"), rest)
    return filled(b, size, given, dtype_of(dtype[0] if dtype else None, b.tensor(input).dtype))


@lowers("Empty")
def empty(b: Builder, size: Value, dtype: Value = None, *device: Value) -> Value:
    """Zeros in a shape, for elements that may be anything."""
    return filled(b, size, 0, dtype_of(dtype, result_dtype(b, 0.0)))


@lowers("EmptyLike")
def empty_like(b: Builder, input: Value, dtype: Value = None, *device: Value) -> Value:
    """Zeros in the shape of input."""
    x = b.tensor(input)
    return filled(b, b.op("Shape", x), 0, dtype_of(dtype, result_dtype(b, x)))


@lowers("TrilIndices", "TriuIndices")
def triangle_indices(b: Builder, *, row: int, col: int, offset: int = 0, dtype: Value = None) -> Value:
    """The rows and the columns of the elements of a triangle."""
    moderate(row * col, "the number of elements")
    lower = b.node is not None and b.node.primitive == "TrilIndices"
    found = np.tril_indices(row, offset, col) if lower else np.triu_indices(row, offset, col)
    return np.stack(found).astype(dtype_of(dtype, result_dtype(b, 0)))


@lowers("FullLike", "Fills")
def full_like(b: Builder, input: Value, fill_value: Value, dtype: Value = None) -> Value:
    """One value in the shape of input."""
    x = b.tensor(input)
    return filled(b, b.op("Shape", x), fill_value, dtype_of(dtype, result_dtype(b, x)))


@lowers("Eye")
def eye(b: Builder, n: Value, m: Value = None, dtype: Value = None) -> Value:
    """Ones on the diagonal."""
    if isinstance(n, Tensor) or isinstance(m, Tensor):
        sides = [b.op("Range", 0, b.cast(b.tensor(side), _INT64), 1, type=TensorType(_INT64, (-1,)))
                 for side in (n, n if m is None else m)]
        on = b.op("Equal", b.op("Unsqueeze", sides[0], (1,)), sides[1])
        return b.cast(on, dtype_of(dtype, result_dtype(b, 0.0)))
    rows = integer(n, "n")
    columns = rows if m is None else integer(m, "m")
    moderate(rows * columns, "the number of elements")
    return np.eye(rows, columns, dtype=dtype_of(dtype, result_dtype(b, 0.0)))


@lowers("Range", "Arange")
def arange(b: Builder, start: Value, end: Value, step: Value = 1, *notes: Value) -> Value:
    """Numbers from start to before end; notes are the greatest length and the dtype."""
    dtype = result_dtype(b, start, end, step)
    if all(is_number(value) for value in (start, end, step)):
        moderate(max(0, math.ceil((end - start) / step)), "the length of the range")
        return np.arange(start, end, step).astype(dtype)
    wide = dtype if dtype in (np.float32, np.float64, np.int32, np.int64) else np.dtype(np.float32)
    parts = [as_dtype(b, value, wide) for value in (start, end, step)]
    return b.op("Range", *parts, type=TensorType(wide, (-1,)))


@lowers("LinSpace", "LinSpaceExt")
def lin_space(b: Builder, start: Value, stop: Value, num: Value, dtype: Value = None) -> Value:
    """num numbers from start to stop, both included."""
    count = moderate(integer(num, "num"), "num")
    wanted = dtype_of(dtype, result_dtype(b, start))
    steps = (np.arange(count) / max(count - 1, 1)).astype(wanted)
    first, last = as_dtype(b, start, wanted), as_dtype(b, stop, wanted)
    return b.op("Add", first, b.op("Mul", b.op("Sub", last, first), steps))


@lowers("Triu", "Tril", "TrilExt")
def triangle(b: Builder, input: Value, diagonal: Value = 0) -> Value:
    """The upper or lower triangle, zeros elsewhere."""
    upper = b.node is not None and b.node.primitive.startswith("Triu")
    k = np.asarray(integer(diagonal, "the diagonal"), np.int64)
    return b.op("Trilu", b.tensor(input), k, upper=int(upper))


@lowers("Meshgrid")
def meshgrid(b: Builder, inputs: Value, indexing: Value = "xy") -> Value:
    """Each vector along its own axis of a common grid; `xy` (1) swaps the first two, `ij` (0) does not."""
    vectors = [b.tensor(vector) for vector in inputs]
    order = list(range(len(vectors)))
    if indexing in (1, "xy") and len(order) > 1:
        order[:2] = [1, 0]
    shape = b.op("Concat", *(b.op("Shape", vectors[i]) for i in order), axis=0)
    sides = [tuple(-1 if at == order.index(i) else 1 for at in range(len(order))) for i in range(len(order))]
    return tuple(b.op("Expand", b.op("Reshape", v, side), shape) for v, side in zip(vectors, sides, strict=True))


@lowers("Diag")
def diagonal_matrix(b: Builder, input: Value) -> Value:
    """A vector as the diagonal of a matrix."""
    x = b.tensor(input)
    if x.rank != 1:
        raise ValueError(f"Diag of a tensor of {x.rank} dimensions is not supported")
    steps = b.op("Range", 0, dims(b, x)[0], 1, type=TensorType(_INT64, (-1,)))
    on = b.op("Equal", b.op("Unsqueeze", steps, (1,)), steps)
    return where(b, on, x, np.zeros((), x.dtype), x.dtype)
