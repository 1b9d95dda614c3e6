"""Diagonals of matrices: taken out, put in, made into matrices."""

from __future__ import annotations

import numpy as np

from ..builder import (
    Builder,
    OnnxTensor,
    Value,
    axis_of,
    dims,
    integer,
    integers,
    lowers,
    moderate,
    result_dtype,
    steps,
    where,
)


@lowers("Diagonal", "DiagonalView")
def diagonal(
    b: Builder, input: Value, offset: Value = 0, dim1: Value = 0, dim2: Value = 1
) -> Value:
    """The diagonal of two axes, as the last axis."""
    x = b.tensor(input)
    first, second = (axis_of(integer(axis, "an axis"), x.rank) for axis in (dim1, dim2))
    rest = [axis for axis in range(x.rank) if axis not in (first, second)]
    front = b.op("Transpose", x, perm=[*rest, first, second])
    places = _places(b, dims(b, x)[first], dims(b, x)[second], integer(offset, "the offset"))
    sizes = [dims(b, x)[axis] for axis in rest]
    return b.op("Gather", b.op("Reshape", front, b.tensor((*sizes, -1))), places, axis=-1)


@lowers("DiagPart")
def diag_part(b: Builder, input: Value) -> Value:
    """The diagonal of a matrix."""
    x = b.tensor(input)
    if x.rank != 2:
        raise ValueError(f"DiagPart of a tensor of {x.rank} dimensions is not supported")
    return diagonal(b, x)


def _places(b: Builder, rows: Value, columns: Value, offset: int) -> Value:
    """The places of a diagonal's elements in a flattened matrix."""
    if isinstance(rows, int) and isinstance(columns, int):
        numbers = np.arange(moderate(rows * columns, "the number of elements"))
        return np.diagonal(numbers.reshape(rows, columns), offset).copy()
    down, right = max(-offset, 0), max(offset, 0)
    height, width = b.tensor(rows), b.tensor(columns)
    size = b.op("Min", b.op("Sub", height, down), b.op("Sub", width, right))
    line = steps(b, b.op("Max", size, 0))
    start = b.op("Add", b.op("Mul", width, down), right)
    return b.op("Add", b.op("Mul", line, b.op("Add", width, 1)), start)


def _diagonal_number(k: Value) -> int:
    numbers = integers(k, "k")
    if len(set(numbers)) != 1:
        raise ValueError(f"several diagonals at once ({list(numbers)}) are not supported")
    return numbers[0]


def _steps(b: Builder, size: Value) -> OnnxTensor:
    """0, 1, 2, ... as many as `size`, a number known now or at run time."""
    if isinstance(size, int):
        return b.tensor(np.arange(moderate(size, "the size")))
    return steps(b, size)


def _with_diagonal(
    b: Builder, elements: OnnxTensor, rows: Value, columns: Value, k: int, other: Value
) -> OnnxTensor:
    """Matrices with the last axis of `elements` as a diagonal, and `other` elsewhere."""
    down = b.op("Unsqueeze", _steps(b, rows), (1,))
    on = b.op("Equal", b.op("Add", down, k), _steps(b, columns))
    last = b.op("Sub", b.tensor(dims(b, elements)[-1]), 1)
    order = b.op("Max", b.op("Min", b.op("Add", _steps(b, rows), min(k, 0)), last), 0)
    picked = b.op("Gather", elements, order, axis=-1)
    return where(b, on, b.op("Unsqueeze", picked, (-1,)), other, elements.dtype)


@lowers("MatrixDiagV3")
def matrix_diag(
    b: Builder,
    x: Value,
    k: Value = 0,
    num_rows: Value = -1,
    num_cols: Value = -1,
    padding_value: Value = 0,
    *,
    align: str = "",
) -> Value:
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
    """Square matrices with the last axis as diagonal; nn.MatrixDiag passes an identity, too."""
    tensor = b.tensor(x)
    size = dims(b, tensor)[-1]
    return _with_diagonal(b, tensor, size, size, 0, 0)


@lowers("MatrixDiagPart")
def main_diagonal(b: Builder, x: Value, *assist: Value) -> Value:
    """The main diagonals of the last two axes; nn.MatrixDiagPart passes an identity, too."""
    return diagonal(b, x, 0, -2, -1)


@lowers("MatrixDiagPartV3")
def matrix_diag_part(
    b: Builder, x: Value, k: Value = 0, padding_value: Value = 0, *, align: str = ""
) -> Value:
    """A diagonal of the matrices of the last two axes."""
    return diagonal(b, x, _diagonal_number(k), -2, -1)


@lowers("MatrixSetDiag")
def set_diagonal(b: Builder, x: Value, diagonal: Value, assist: Value = None) -> Value:
    """x with another main diagonal; nn.MatrixSetDiag passes an identity, too."""
    return matrix_set_diag(b, x, diagonal)


@lowers("MatrixSetDiagV3")
def matrix_set_diag(
    b: Builder, x: Value, diagonal: Value, k: Value = 0, *, align: str = ""
) -> Value:
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
    return b.op("ReduceSum", b.cast(found, result_dtype(b, found)), (-1,), keepdims=0)


@lowers("MatrixBandPart")
def matrix_band_part(b: Builder, x: Value, lower: Value, upper: Value) -> Value:
    """A band of so many diagonals below and above the main one, zeros elsewhere; -1 means all."""
    x = b.tensor(x)
    below, above = integer(lower, "lower"), integer(upper, "upper")
    if below >= 0:
        x = b.op("Trilu", x, np.asarray(-below, np.int64), upper=1)
    return x if above < 0 else b.op("Trilu", x, np.asarray(above, np.int64), upper=0)
