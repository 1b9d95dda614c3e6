"""Adaptive pooling: so many windows that they cover the tensor, of nearly one size."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..dtypes import limits
from ..mindir.graph import TensorType
from .arguments import integers, known, moderate
from .builder import Builder, Tensor, Value
from .math import where
from .registry import lowers
from .shape import dims

_INT64 = np.dtype(np.int64)
_MOST_WINDOWS = 1 << 20  # along an axis
_AXES = {"1": 1, "2": 2, "3": 3}


def _counts(b: Builder, value: Value) -> tuple[int, ...]:
    """How many windows per axis, as many axes as the primitive's name has; -1 keeps an axis."""
    axes = next((n for digit, n in _AXES.items() if b.node and f"{digit}D" in b.node.primitive), 2)
    if isinstance(value, np.ndarray):
        value = tuple(value.reshape(-1).tolist())
    items = value if isinstance(value, tuple) else (value,)
    sizes = integers(tuple(-1 if item is None else item for item in items), "output_size")
    return sizes * axes if len(sizes) == 1 else sizes


def _windows(size: int, count: int) -> list[tuple[int, int]]:
    """Where each of `count` windows begins and ends."""
    count = size if count < 0 else count
    moderate(count, "the number of windows", _MOST_WINDOWS)
    moderate(count * size, "the number of coefficients")
    return [(row * size // count, -(-(row + 1) * size // count)) for row in range(count)]


def _inside(b: Builder, size: Tensor, count: int) -> Tensor:
    """[count, size]: which elements each window holds, for a size that only the run time tells."""
    if count < 0:
        raise ValueError("an axis that pooling keeps must be known when the model is built, and it is not")
    rows = np.arange(count).reshape(-1, 1)
    start = b.op("Div", b.op("Mul", size, rows), count)
    end = b.op("Div", b.op("Add", b.op("Mul", size, rows + 1), count - 1), count)
    place = b.op("Range", 0, size, 1, type=TensorType(_INT64, (-1,)))
    inside: Tensor = b.op("And", b.op("GreaterOrEqual", place, start), b.op("Less", place, end))
    return inside


def _matrix(b: Builder, x: Tensor, axis: int, count: int) -> Tensor:
    """The matrix that takes an axis to the means of `count` windows."""
    size = dims(b, x)[axis]
    if isinstance(size, int):
        return b.tensor(_averages(size, count).astype(x.dtype))
    inside = b.cast(_inside(b, size, count), x.dtype)
    result: Tensor = b.op("Div", inside, b.op("ReduceSum", inside, (-1,), keepdims=1))
    return result


def _averages(size: int, count: int) -> NDArray[Any]:
    """That matrix for a known size."""
    windows = _windows(size, count)
    matrix = np.zeros((len(windows), size))
    for row, (start, end) in enumerate(windows):
        matrix[row, start:end] = 1 / (end - start)
    return matrix


@lowers("AdaptiveAvgPool1D", "AdaptiveAvgPool2D", "AdaptiveAvgPool2DExt", "AdaptiveAvgPool3D", "AdaptiveAvgPool3DExt")
def adaptive_avg_pool(b: Builder, x: Value, output_size: Value) -> Value:
    """The means of the windows."""
    x, counts = b.tensor(x), _counts(b, output_size)
    if set(counts) == {1}:
        return b.op("ReduceMean", x, tuple(range(-len(counts), 0)), keepdims=1) if len(counts) != 2 else b.op(
            "GlobalAveragePool", x)
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


def _places(sizes: list[int], counts: tuple[int, ...]) -> NDArray[Any]:
    """[windows, elements] of places in the flattened axes; short windows repeat their last element."""
    plane = np.arange(moderate(int(np.prod(sizes)), "the number of elements")).reshape(sizes)
    per_axis = []
    for size, count in zip(sizes, counts, strict=True):
        windows = _windows(size, count)
        longest = max(end - start for start, end in windows)
        per_axis.append(np.array([[min(start + at, end - 1) for at in range(longest)] for start, end in windows]))
    moderate(prod(w.size for w in per_axis), "the number of elements of all windows")
    grids = np.meshgrid(*(np.arange(len(w)) for w in per_axis), indexing="ij")
    taps = np.meshgrid(*(np.arange(w.shape[1]) for w in per_axis), indexing="ij")
    index = tuple(w[g.reshape(-1, 1), t.reshape(1, -1)] for w, g, t in zip(per_axis, grids, taps, strict=True))
    places: NDArray[Any] = plane[index]
    return places


@lowers("AdaptiveMaxPool1D", "AdaptiveMaxPool2D", "AdaptiveMaxPool3D")
def adaptive_max_pool(b: Builder, input: Value, output_size: Value) -> Value:
    """The largest elements of the windows, and where in the flattened axes they are."""
    x, counts = b.tensor(input), _counts(b, output_size)
    if not x.static:
        return _largest(b, x, counts), None
    sizes = [known(x, at - len(counts)) for at in range(len(counts))]
    outer = x.rank - len(counts)
    table = _places(sizes, counts)
    flat = b.op("Reshape", x, (0,) * outer + (-1,))
    windows = b.op("Gather", flat, table, axis=-1)
    first = b.op("ArgMax", windows, axis=-1, keepdims=0)
    rows = np.arange(len(table)) * table.shape[1]
    place = b.op("Gather", table.reshape(-1), b.op("Add", first, rows), axis=0, type=TensorType(_INT64, None))
    shape = (0,) * outer + tuple(size if n < 0 else n for size, n in zip(sizes, counts, strict=True))
    return _shaped(b, b.op("ReduceMax", windows, (-1,), keepdims=0), shape), _shaped(b, place, shape)


def _largest(b: Builder, x: Tensor, counts: tuple[int, ...]) -> Tensor:
    """The largest elements alone, axis after axis, for sizes that only the run time tells."""
    lowest = limits(x.dtype)[0]
    for at, count in enumerate(counts):
        axis, after = at - len(counts), (1,) * (len(counts) - 1 - at)
        size = dims(b, x)[axis]
        if count == 1:
            y = b.op("ReduceMax", x, (axis,), keepdims=1)
        else:
            inside = b.op("Reshape", _inside(b, b.tensor(size), count), (count, -1, *after))
            y = b.op("ReduceMax", where(b, inside, b.op("Unsqueeze", x, (axis - 1,)), lowest, x.dtype), (axis,),
                     keepdims=0)
        shape = list(x.shape or ())
        shape[axis] = count
        x = Tensor(y.name, x.dtype, tuple(shape))
    return x


def _shaped(b: Builder, x: Tensor, shape: tuple[int, ...]) -> Tensor:
    result: Tensor = b.op("Reshape", x, shape)
    return result
