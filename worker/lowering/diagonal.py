"""Diagonals: taken out, put in, made into matrices."""

from __future__ import annotations

import numpy as np

from ..mindir.graph import TensorType
from .arguments import axis_of, integer, integers, moderate
from .builder import Builder, Tensor, Value
from .math import as_dtype, where
from .registry import lowers
from .shape import dims

_INT64 = np.dtype(np.int64)


@lowers("Diagonal", "DiagonalView", "DiagPart")
def diagonal(b: Builder, input: Value, offset: Value = 0, dim1: Value = 0, dim2: Value = 1) -> Value:
    """The diagonal of two axes, as the last axis."""
    x = b.tensor(input)
    if b.node and b.node.primitive == "DiagPart" and x.rank != 2:
        raise ValueError(f"DiagPart of a tensor of {x.rank} dimensions is not supported")
    first, second = (axis_of(integer(axis, "an axis"), x.rank) for axis in (dim1, dim2))
    rest = [axis for axis in range(x.rank) if axis not in (first, second)]
    front = b.op("Transpose", x, perm=[*rest, first, second])
    places = _places(b, dims(b, x)[first], dims(b, x)[second], integer(offset, "the offset"))
    sizes = [dims(b, x)[axis] for axis in rest]
    flat = b.op("Reshape", front, b.tensor((*sizes, -1)))
    return b.op("Gather", flat, places, axis=-1)


def _places(b: Builder, rows: Value, columns: Value, offset: int) -> Value:
    """Where a diagonal's elements are in a flattened matrix."""
    if isinstance(rows, int) and isinstance(columns, int):
        matrix = np.arange(moderate(rows * columns, "the number of elements")).reshape(rows, columns)
        return np.diagonal(matrix, offset).copy()
    down, right = max(-offset, 0), max(offset, 0)
    size = b.op("Max", b.op("Min", b.op("Sub", b.tensor(rows), down), b.op("Sub", b.tensor(columns), right)), 0)
    steps = b.op("Range", 0, size, 1, type=TensorType(_INT64, (-1,)))
    start = b.op("Add", b.op("Mul", b.tensor(columns), down), right)
    return b.op("Add", b.op("Mul", steps, b.op("Add", b.tensor(columns), 1)), start)


def _diagonal_number(k: Value) -> int:
    numbers = integers(k, "k")
    if len(set(numbers)) != 1:
        raise ValueError(f"several diagonals at once ({list(numbers)}) are not supported")
    return numbers[0]


def _steps(b: Builder, size: Value) -> Tensor:
    """0, 1, 2, ... as many as `size`, a number known now or at run time."""
    if isinstance(size, int):
        return b.tensor(np.arange(moderate(size, "the size")))
    steps: Tensor = b.op("Range", 0, size, 1, type=TensorType(_INT64, (-1,)))
    return steps


def _with_diagonal(b: Builder, elements: Tensor, rows: Value, columns: Value, k: int, other: Value) -> Tensor:
    """Matrices with the last axis of `elements` as a diagonal, and `other` elsewhere."""
    down = b.op("Unsqueeze", _steps(b, rows), (1,))
    on = b.op("Equal", b.op("Add", down, k), _steps(b, columns))
    last = b.op("Sub", b.tensor(dims(b, elements)[-1]), 1)
    order = b.op("Max", b.op("Min", b.op("Add", _steps(b, rows), min(k, 0)), last), 0)
    picked = b.op("Gather", elements, order, axis=-1)
    return where(b, on, b.op("Unsqueeze", picked, (-1,)), other, elements.dtype)


@lowers("MatrixDiagV3")
def matrix_diag(b: Builder, x: Value, k: Value = 0, num_rows: Value = -1, num_cols: Value = -1,
                padding_value: Value = 0, *, align: str = "") -> Value:
    """Matrices with the last axis as their diagonal, a value elsewhere."""
    x, number = b.tensor(x), _diagonal_number(k)
    size, given = dims(b, x)[-1], (integer(num_rows, "num_rows"), integer(num_cols, "num_cols"))
    natural = (_plus(b, size, max(-number, 0)), _plus(b, size, max(number, 0)))
    rows, columns = (asked if asked > 0 else own for asked, own in zip(given, natural, strict=True))
    return _with_diagonal(b, x, rows, columns, number, padding_value)


def _plus(b: Builder, size: Value, more: int) -> Value:
    return size if not more else size + more if isinstance(size, int) else b.op("Add", size, more)


@lowers("MatrixDiag")
def matrix_of_diagonal(b: Builder, x: Value, assist: Value = None) -> Value:
    """Square matrices with the last axis as their diagonal; nn.MatrixDiag's assist is the identity."""
    tensor = b.tensor(x)
    size = dims(b, tensor)[-1]
    return _with_diagonal(b, tensor, size, size, 0, 0)


@lowers("MatrixDiagPart", "MatrixDiagPartV3")
def matrix_diag_part(b: Builder, x: Value, k: Value = 0, padding_value: Value = 0, *, align: str = "") -> Value:
    """A diagonal of the matrices of the last two axes; what nn.MatrixDiagPart has as `k` is the identity."""
    number = 0 if b.node and b.node.primitive == "MatrixDiagPart" else _diagonal_number(k)
    return diagonal(b, x, number, -2, -1)


@lowers("MatrixSetDiag")
def set_diagonal(b: Builder, x: Value, diagonal: Value, assist: Value = None) -> Value:
    """x with another main diagonal; nn.MatrixSetDiag's assist is the identity."""
    return matrix_set_diag(b, x, diagonal)


@lowers("MatrixSetDiagV3")
def matrix_set_diag(b: Builder, x: Value, diagonal: Value, k: Value = 0, *, align: str = "") -> Value:
    """x with another diagonal."""
    x = b.tensor(x)
    rows, columns = dims(b, x)[-2:]
    return _with_diagonal(b, b.tensor(diagonal), rows, columns, _diagonal_number(k), x)


@lowers("DiagExt")
def diag_ext(b: Builder, input: Value, diagonal_: Value = 0) -> Value:
    """A vector as a diagonal of a matrix, or a diagonal of a matrix as a vector."""
    x, number = b.tensor(input), integer(diagonal_, "the diagonal")
    if x.rank == 2:
        return diagonal(b, x, number)
    size = _plus(b, dims(b, x)[0], abs(number))
    return _with_diagonal(b, x, size, size, number, 0)


@lowers("Trace", "TraceExt", "TraceV2")
def trace(b: Builder, input: Value, *axes: Value) -> Value:
    """The sum of a diagonal."""
    found = diagonal(b, input, *axes[:3])
    kind = b.node.type if b.node else None
    wanted = kind.dtype if isinstance(kind, TensorType) else found.dtype
    return b.op("ReduceSum", as_dtype(b, found, wanted), (-1,), keepdims=0)


@lowers("MatrixBandPart")
def matrix_band_part(b: Builder, x: Value, lower: Value, upper: Value) -> Value:
    """What is at most so far below and above the diagonal, zeros elsewhere; negative means all."""
    x = b.tensor(x)
    below, above = integer(lower, "lower"), integer(upper, "upper")
    if below >= 0:
        x = b.op("Trilu", x, np.asarray(-below, np.int64), upper=1)
    return x if above < 0 else b.op("Trilu", x, np.asarray(above, np.int64), upper=0)
