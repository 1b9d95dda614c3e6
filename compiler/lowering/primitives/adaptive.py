"""Adaptive pooling: a given number of windows, of nearly one size, that cover the tensor."""

from __future__ import annotations

from math import prod

import numpy as np
from numpy.typing import NDArray

from ...element_types.dtypes import limits
from ...element_types.value_types import TensorType
from ..builder import (
    INT64,
    Builder,
    OnnxTensor,
    Value,
    dims,
    integers,
    known,
    lowers,
    lowers_each,
    moderate,
    steps,
    where,
)

_MOST_WINDOWS = 1 << 20  # along an axis


def _counts(value: Value, axes: int) -> tuple[int, ...]:
    """How many windows each axis has; -1 keeps an axis."""
    if isinstance(value, np.ndarray):
        value = tuple(value.reshape(-1).tolist())
    items = value if isinstance(value, tuple) else (value,)
    sizes = integers(tuple(-1 if item is None else item for item in items), "output_size")
    return sizes * axes if len(sizes) == 1 else sizes


def _windows(size: int, count: int) -> list[tuple[int, int]]:
    """(start, end) of each of `count` windows."""
    count = size if count < 0 else count
    moderate(count, "the number of windows", _MOST_WINDOWS)
    moderate(count * size, "the number of coefficients")
    return [(row * size // count, -(-(row + 1) * size // count)) for row in range(count)]


def _inside(b: Builder, size: OnnxTensor, count: int) -> OnnxTensor:
    """[count, size]: whether a window holds an element, for a size of run time."""
    if count < 0:
        raise ValueError(
            "an axis that pooling keeps must be known when the model is built, and it is not"
        )
    rows = np.arange(count).reshape(-1, 1)
    start = b.op("Div", b.op("Mul", size, rows), count)
    end = b.op("Div", b.op("Add", b.op("Mul", size, rows + 1), count - 1), count)
    place = steps(b, size)
    return b.op("And", b.op("GreaterOrEqual", place, start), b.op("Less", place, end))


def _matrix(b: Builder, x: OnnxTensor, axis: int, count: int) -> OnnxTensor:
    """The matrix that takes an axis to the means of `count` windows."""
    size = dims(b, x)[axis]
    if isinstance(size, int):
        return b.tensor(_averages(size, count).astype(x.dtype))
    inside = b.cast(_inside(b, size, count), x.dtype)
    return b.op("Div", inside, b.op("ReduceSum", inside, (-1,), keepdims=1))


def _averages(size: int, count: int) -> NDArray[np.float64]:
    """The matrix [windows, size] of means for a known size."""
    windows = _windows(size, count)
    matrix = np.zeros((len(windows), size))
    for row, (start, end) in enumerate(windows):
        matrix[row, start:end] = 1 / (end - start)
    return matrix


@lowers("AdaptiveAvgPool1D", axes=1)
@lowers("AdaptiveAvgPool2D", "AdaptiveAvgPool2DExt", axes=2)
@lowers("AdaptiveAvgPool3D", "AdaptiveAvgPool3DExt", axes=3)
def adaptive_avg_pool(b: Builder, x: Value, output_size: Value, *, axes: int) -> Value:
    """The means of the windows."""
    x, counts = b.tensor(x), _counts(output_size, axes)
    if set(counts) == {1}:
        if len(counts) == 2:
            return b.op("GlobalAveragePool", x)
        return b.op("ReduceMean", x, tuple(range(-len(counts), 0)), keepdims=1)
    matrices = [_matrix(b, x, at - len(counts), n) for at, n in enumerate(counts)]
    y = b.op("MatMul", x, b.op("Transpose", matrices[-1], perm=[1, 0]))
    if len(counts) > 1:
        y = b.op("MatMul", matrices[-2], y, type=TensorType(x.dtype, None))
    if len(counts) == 3:
        order = [0, 1, 3, 4, 2] if x.rank == 5 else [0, 2, 3, 1]
        back = [0, 1, 4, 2, 3] if x.rank == 5 else [0, 3, 1, 2]
        first = b.op("Transpose", matrices[0], perm=[1, 0])
        y = b.op("Transpose", b.op("MatMul", b.op("Transpose", y, perm=order), first), perm=back)
    return y


def _places(sizes: list[int], counts: tuple[int, ...]) -> NDArray[np.int64]:
    """[windows, elements]: places in the flattened axes; short windows repeat the last one."""
    plane = np.arange(moderate(prod(sizes), "the number of elements")).reshape(sizes)
    per_axis = [_taps(_windows(size, n)) for size, n in zip(sizes, counts, strict=True)]
    moderate(prod(w.size for w in per_axis), "the number of elements of all windows")
    grids = np.meshgrid(*(np.arange(len(w)) for w in per_axis), indexing="ij")
    taps = np.meshgrid(*(np.arange(w.shape[1]) for w in per_axis), indexing="ij")
    index = tuple(
        w[g.reshape(-1, 1), t.reshape(1, -1)] for w, g, t in zip(per_axis, grids, taps, strict=True)
    )
    places: NDArray[np.int64] = plane[index]
    return places


def _taps(windows: list[tuple[int, int]]) -> NDArray[np.int64]:
    """[windows, elements]: places along one axis."""
    longest = max(end - start for start, end in windows)
    rows = [[min(start + at, end - 1) for at in range(longest)] for start, end in windows]
    return np.array(rows)


@lowers_each("axes", {"AdaptiveMaxPool1D": 1, "AdaptiveMaxPool2D": 2, "AdaptiveMaxPool3D": 3})
def adaptive_max_pool(b: Builder, input: Value, output_size: Value, *, axes: int) -> Value:
    """(the largest elements of the windows, their places in the flattened axes)."""
    x, counts = b.tensor(input), _counts(output_size, axes)
    if not x.static:
        return _largest(b, x, counts), None
    sizes = [known(x, at - len(counts)) for at in range(len(counts))]
    outer = x.rank - len(counts)
    table = _places(sizes, counts)
    windows = b.op("Gather", b.op("Reshape", x, (0,) * outer + (-1,)), table, axis=-1)
    first = b.op("ArgMax", windows, axis=-1, keepdims=0)
    rows = np.arange(len(table)) * table.shape[1]
    kind = TensorType(INT64, None)
    place = b.op("Gather", table.reshape(-1), b.op("Add", first, rows), axis=0, type=kind)
    inner = (size if n < 0 else n for size, n in zip(sizes, counts, strict=True))
    shape = (*(0,) * outer, *inner)
    largest = b.op("Reshape", b.op("ReduceMax", windows, (-1,), keepdims=0), shape)
    return largest, b.op("Reshape", place, shape)


def _largest(b: Builder, x: OnnxTensor, counts: tuple[int, ...]) -> OnnxTensor:
    """The largest elements alone, axis after axis, for sizes of run time."""
    lowest = limits(x.dtype)[0]
    for at, count in enumerate(counts):
        axis, after = at - len(counts), (1,) * (len(counts) - 1 - at)
        size = dims(b, x)[axis]
        if count == 1:
            y = b.op("ReduceMax", x, (axis,), keepdims=1)
        else:
            inside = b.op("Reshape", _inside(b, b.tensor(size), count), (count, -1, *after))
            apart = b.op("Unsqueeze", x, (axis - 1,))
            y = b.op("ReduceMax", where(b, inside, apart, lowest, x.dtype), (axis,), keepdims=0)
        shape = list(x.shape or ())
        shape[axis] = count
        x = OnnxTensor(y.name, x.dtype, tuple(shape))
    return x
