"""Products: of matrices, and of stacks of them."""

from __future__ import annotations

from math import prod

import numpy as np

from ...element_types.value_types import TensorType
from ..mindir.values import MindirValue
from .node_conversion import NodeConversion
from .registry import converts


@converts("MatMul")
def matmul(c: NodeConversion, a: MindirValue, b: MindirValue) -> MindirValue:
    """Of matrices, or of stacks of them; a matrix on the right takes all rows of the left."""
    if a.rank == 2 and b.rank == 2:
        return c.apply("MatMul", a, b, False, False)
    if a.rank > 2 and b.rank == 2 and min(a.shape) >= 0:
        rows = prod(a.shape[:-1])
        flat = c.reshaped(a, (rows, a.shape[-1]))
        found = c.apply("MatMul", flat, b, False, False, type=_like(c, (rows, b.shape[1])))
        return c.apply("Reshape", found, (*a.shape[:-1], b.shape[1]))
    if a.rank == b.rank and a.shape[:-2] == b.shape[:-2]:
        return c.apply("BatchMatMul", a, b, False, False)
    return c.apply("MatMulExt", a, b)


@converts("Det")
def determinant(c: NodeConversion, x: MindirValue) -> MindirValue:
    """Of the matrices of the last two axes."""
    return c.apply("MatrixDeterminant", x)


@converts("Gemm")
def gemm(
    c: NodeConversion,
    a: MindirValue,
    b: MindirValue,
    bias: MindirValue | None = None,
    *,
    alpha: float = 1.0,
    beta: float = 1.0,
    transA: int = 0,
    transB: int = 0,
) -> MindirValue:
    """alpha a b + beta bias."""
    found = c.apply("MatMul", a, b, bool(transA), bool(transB))
    if alpha != 1:
        found = c.apply("Mul", found, np.asarray(alpha, a.dtype))
    if bias is None:
        return found
    if beta != 1:
        bias = c.apply("Mul", bias, np.asarray(beta, a.dtype), type=bias.type)
    if bias.rank == 1 and bias.shape[0] == found.shape[-1]:
        return c.apply("BiasAdd", found, bias, 0)
    return c.apply("Add", found, bias)


def _like(c: NodeConversion, shape: tuple[int, ...]) -> TensorType:
    return TensorType(c.type.dtype, shape)
