"""Creation of tensors: constants of a shape, ranges, triangles and grids."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from ...element_types.value_types import TensorType
from ..builder import (
    FLOAT32,
    INT64,
    Builder,
    OnnxTensor,
    Value,
    as_dtype,
    dims,
    dtype_of,
    integer,
    is_number,
    lowers,
    lowers_each,
    moderate,
    result_dtype,
    steps,
    where,
)


def filled(b: Builder, shape: Value, value: Value, dtype: np.dtype[np.generic]) -> OnnxTensor:
    """One value in a shape, a tuple or a run-time tensor."""
    sizes = shape if isinstance(shape, (tuple, OnnxTensor, np.ndarray)) else (shape,)
    size = b.cast(b.tensor(sizes), INT64)
    one = as_dtype(b, value.reshape(()) if isinstance(value, np.ndarray) else value, dtype)
    return b.op("Expand", one, size)


@lowers_each("value", {"Zeros": 0, "Ones": 1, "Empty": 0})
def constant(b: Builder, size: Value, dtype: Value = None, *device: Value, value: int) -> Value:
    """Zeros or ones in a shape; zeros where the elements may be anything."""
    return filled(b, size, value, dtype_of(dtype, result_dtype(b, 0.0)))


@lowers("FillScalar", "FillTensor", "FillV2")
def fill(b: Builder, size: Value, value: Value, dtype: Value = None) -> Value:
    """One value in a shape."""
    return filled(b, size, value, dtype_of(dtype, result_dtype(b, value)))


@lowers("Fill")
def fill_old(b: Builder, dtype: Value, size: Value, value: Value) -> Value:
    """Fill with the dtype first."""
    return fill(b, size, value, dtype)


@lowers("ZerosLike", "ZerosLikeExt", "EmptyLike", value=0)
@lowers("OnesLike", "OnesLikeExt", value=1)
def constant_like(
    b: Builder, input: Value, dtype: Value = None, *device: Value, value: int
) -> Value:
    """Zeros or ones in the shape of input; zeros where the elements may be anything."""
    return full_like(b, input, value, dtype)


@lowers_each("value", {"NewZeros": 0, "NewOnes": 1, "NewEmpty": 0})
def new_constant(
    b: Builder, input: Value, size: Value, dtype: Value = None, *device: Value, value: int
) -> Value:
    """Zeros or ones in a shape, in the dtype of input unless another is named."""
    return new_full(b, input, size, value, dtype)


@lowers("NewFull")
def new_full(b: Builder, input: Value, size: Value, value: Value, dtype: Value = None) -> Value:
    """One value in a shape, in the dtype of input unless another is named."""
    return filled(b, size, value, dtype_of(dtype, b.tensor(input).dtype))


@lowers_each("indices", {"TrilIndices": np.tril_indices, "TriuIndices": np.triu_indices})
def triangle_indices(
    b: Builder,
    *,
    row: int,
    col: int,
    offset: int = 0,
    dtype: Value = None,
    indices: Callable[[int, int, int], tuple[NDArray[np.int64], ...]],
) -> Value:
    """[2, elements]: the rows and the columns of the elements of a triangle."""
    moderate(row * col, "the number of elements")
    return np.stack(indices(row, offset, col)).astype(dtype_of(dtype, result_dtype(b, 0)))


@lowers("FullLike", "Fills")
def full_like(b: Builder, input: Value, fill_value: Value, dtype: Value = None) -> Value:
    """One value in the shape of input."""
    x = b.tensor(input)
    return filled(b, b.op("Shape", x), fill_value, dtype_of(dtype, result_dtype(b, x)))


@lowers("Eye")
def eye(b: Builder, n: Value, m: Value = None, dtype: Value = None) -> Value:
    """Ones on the diagonal."""
    if isinstance(n, OnnxTensor) or isinstance(m, OnnxTensor):
        ends = [b.cast(b.tensor(side), INT64) for side in (n, n if m is None else m)]
        rows, columns = (steps(b, end) for end in ends)
        on = b.op("Equal", b.op("Unsqueeze", rows, (1,)), columns)
        return b.cast(on, dtype_of(dtype, result_dtype(b, 0.0)))
    height = integer(n, "n")
    width = height if m is None else integer(m, "m")
    moderate(height * width, "the number of elements")
    return np.eye(height, width, dtype=dtype_of(dtype, result_dtype(b, 0.0)))


@lowers("Range", "Arange")
def arange(b: Builder, start: Value, end: Value, step: Value = 1, *notes: Value) -> Value:
    """Numbers from start to before end; notes are the greatest length and the dtype."""
    dtype = result_dtype(b, start, end, step)
    if all(is_number(value) for value in (start, end, step)):
        moderate(max(0, math.ceil((end - start) / step)), "the length of the range")
        return np.arange(start, end, step).astype(dtype)
    wide = dtype if dtype in (np.float32, np.float64, np.int32, np.int64) else FLOAT32
    parts = [as_dtype(b, value, wide) for value in (start, end, step)]
    return b.op("Range", *parts, type=TensorType(wide, (-1,)))


@lowers("LinSpace", "LinSpaceExt")
def lin_space(b: Builder, start: Value, stop: Value, num: Value, dtype: Value = None) -> Value:
    """num numbers from start to stop, both included."""
    count = moderate(integer(num, "num"), "num")
    wanted = dtype_of(dtype, result_dtype(b, start))
    parts = (np.arange(count) / max(count - 1, 1)).astype(wanted)
    first, last = as_dtype(b, start, wanted), as_dtype(b, stop, wanted)
    return b.op("Add", first, b.op("Mul", b.op("Sub", last, first), parts))


@lowers_each("upper", {"Triu": 1, "Tril": 0, "TrilExt": 0})
def triangle(b: Builder, input: Value, diagonal: Value = 0, *, upper: int) -> Value:
    """The upper or lower triangle, zeros elsewhere."""
    k = np.asarray(integer(diagonal, "the diagonal"), np.int64)
    return b.op("Trilu", b.tensor(input), k, upper=upper)


@lowers("Meshgrid")
def meshgrid(b: Builder, inputs: Value, indexing: Value = "xy") -> Value:
    """Each vector along its own axis of a common grid; `xy` (1) swaps the first two axes."""
    vectors = [b.tensor(vector) for vector in inputs]
    order = list(range(len(vectors)))
    if indexing in (1, "xy") and len(order) > 1:
        order[:2] = [1, 0]
    shape = b.op("Concat", *(b.op("Shape", vectors[i]) for i in order), axis=0)
    found = []
    for i, vector in enumerate(vectors):
        side = tuple(-1 if at == order.index(i) else 1 for at in range(len(order)))
        found.append(b.op("Expand", b.op("Reshape", vector, side), shape))
    return tuple(found)


@lowers("Diag")
def diagonal_matrix(b: Builder, input: Value) -> Value:
    """A vector as the diagonal of a matrix."""
    x = b.tensor(input)
    if x.rank != 1:
        raise ValueError(f"Diag of a tensor of {x.rank} dimensions is not supported")
    line = steps(b, dims(b, x)[0])
    on = b.op("Equal", b.op("Unsqueeze", line, (1,)), line)
    return where(b, on, x, np.zeros((), x.dtype), x.dtype)
