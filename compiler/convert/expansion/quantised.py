"""Quantised operators: integers that stand for numbers, by a scale and a zero point.

Products are of integers, as onnxruntime's are, so that results round alike. Sources: the ONNX
specification, and the schemas of onnxruntime, domain com.microsoft.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx_ir as ir

from .expander import Expander
from .registry import expands

_FLOAT8 = (
    ir.DataType.FLOAT8E4M3FN,
    ir.DataType.FLOAT8E4M3FNUZ,
    ir.DataType.FLOAT8E5M2,
    ir.DataType.FLOAT8E5M2FNUZ,
)
_INT32 = np.dtype(np.int32)
_FLOAT = np.dtype(np.float32)


def real(
    e: Expander,
    x: ir.Value,
    scale: ir.Value,
    zero: ir.Value | None,
    along: Sequence[int] | None = None,
) -> ir.Value:
    """(x - zero) scale; `along` is the shape to which scale and zero are brought."""
    kind = e.dtype(scale)
    number = _as(e, x, kind)
    if zero is not None:
        number = e.op("Sub", number, _brought(e, _as(e, zero, kind), along))
    return e.op("Mul", number, _brought(e, scale, along))


def _as(e: Expander, x: ir.Value, kind: np.dtype[np.generic]) -> ir.Value:
    """A value in another dtype: a new constant where MindIR lacks the dtype, as it does float8."""
    if x.dtype in _FLOAT8:
        return e.constant(e.array(x).astype(kind), kind)
    return e.cast(x, kind)


def quantised(
    e: Expander,
    x: ir.Value,
    scale: ir.Value,
    zero: ir.Value | None,
    along: Sequence[int] | None = None,
) -> ir.Value:
    """x / scale + zero, rounded half to even, within the limits of the dtype of zero."""
    target = np.dtype(np.uint8) if zero is None else e.dtype(zero)
    kind = e.dtype(scale)
    number = e.op("Round", e.op("Div", x, _brought(e, scale, along)))
    if zero is not None:
        number = e.op("Add", number, _brought(e, e.cast(zero, kind), along))
    limits = np.iinfo(target.name)
    bounds = e.constant(limits.min, kind), e.constant(limits.max, kind)
    return e.cast(e.cast(e.op("Clip", number, *bounds), _INT32), target)


def _brought(e: Expander, value: ir.Value, shape: Sequence[int] | None) -> ir.Value:
    return value if shape is None else e.op("Reshape", value, e.constant(shape))


def _along(e: Expander, x: ir.Value, scale: ir.Value, axis: int) -> list[int] | None:
    """The shape of scales, one for each index of an axis; None for a single scale."""
    if e.rank(scale) == 0 or e.sizes(scale) == (1,):
        return None if e.rank(scale) == 0 else []
    if e.rank(scale) != 1:
        raise ValueError("scales of blocks are not supported")
    rank = e.rank(x)
    return [-1 if at == axis % rank else 1 for at in range(rank)]


@expands("DequantizeLinear", "com.microsoft::DequantizeLinear")
def dequantize_linear(
    e: Expander,
    x: ir.Value,
    scale: ir.Value,
    zero: ir.Value | None = None,
    *,
    axis: int = 1,
    block_size: int = 0,
    output_dtype: int = 0,
) -> ir.Value:
    """Numbers of integers."""
    if block_size:
        raise ValueError("scales of blocks are not supported")
    return real(e, x, scale, zero, _along(e, x, scale, axis))


@expands("QuantizeLinear", "com.microsoft::QuantizeLinear")
def quantize_linear(
    e: Expander,
    x: ir.Value,
    scale: ir.Value,
    zero: ir.Value | None = None,
    *,
    axis: int = 1,
    block_size: int = 0,
    output_dtype: int = 0,
    precision: int = 0,
    saturate: int = 1,
) -> ir.Value:
    """Integers of numbers."""
    if block_size or (zero is None and output_dtype not in (0, ir.DataType.UINT8)):
        raise ValueError("scales of blocks, and dtypes without a zero point, are not supported")
    return quantised(e, x, scale, zero, _along(e, x, scale, axis))


@expands("DynamicQuantizeLinear")
def dynamic_quantize_linear(e: Expander, x: ir.Value) -> list[ir.Value]:
    """Bytes, with the scale and the zero point that the limits of x give."""
    nought = e.constant(0, _FLOAT)
    least = e.op("Min", e.op("ReduceMin", x, keepdims=0), nought)
    most = e.op("Max", e.op("ReduceMax", x, keepdims=0), nought)
    scale = e.op("Div", e.op("Sub", most, least), e.constant(255, _FLOAT))
    first = e.op("Neg", e.op("Div", least, scale))
    bounds = nought, e.constant(255, _FLOAT)
    zero = e.op("Round", e.op("Clip", first, *bounds))
    number = e.op("Add", e.op("Round", e.op("Div", x, scale)), zero)
    found = e.cast(e.cast(e.op("Clip", number, *bounds), _INT32), np.uint8)
    return [found, scale, e.cast(e.cast(zero, _INT32), np.uint8)]


@expands("MatMulInteger")
def matmul_integer(
    e: Expander,
    a: ir.Value,
    b: ir.Value,
    a_zero: ir.Value | None = None,
    b_zero: ir.Value | None = None,
) -> ir.Value:
    """The product of integers."""
    return e.op("MatMul", _whole(e, a, a_zero, rows=True), _whole(e, b, b_zero))


def _whole(
    e: Expander, x: ir.Value, zero: ir.Value | None, rows: bool = False, kind: object = _INT32
) -> ir.Value:
    """x - zero, without the limits of a byte."""
    number = e.cast(x, kind)
    if zero is None:
        return number
    point = e.cast(zero, kind)
    if rows and e.rank(zero) == 1 and e.sizes(zero) != (1,):
        point = e.op("Reshape", point, e.constant([-1, 1]))
    return e.op("Sub", number, point)


@expands("ConvInteger")
def conv_integer(
    e: Expander,
    x: ir.Value,
    weight: ir.Value,
    x_zero: ir.Value | None = None,
    weight_zero: ir.Value | None = None,
    **places: Any,
) -> ir.Value:
    """A convolution of integers, which float32 holds exactly up to 2^24."""
    data = _whole(e, x, x_zero, kind=_FLOAT)
    kernel = e.cast(weight, _FLOAT)
    if weight_zero is not None:
        kernel = e.op("Sub", kernel, _filters(e, weight_zero, e.rank(weight)))
    found = e.op("Conv", data, kernel, **places)
    return e.cast(found, _INT32)


def _filters(e: Expander, zero: ir.Value, rank: int) -> ir.Value:
    """Zero points of filters, along the first axis of their weight."""
    point = e.cast(zero, _FLOAT)
    if e.rank(zero) == 0:
        return point
    return e.op("Reshape", point, e.constant([-1] + [1] * (rank - 1)))


@expands("QLinearMatMul")
def qlinear_matmul(
    e: Expander,
    a: ir.Value,
    a_scale: ir.Value,
    a_zero: ir.Value,
    b: ir.Value,
    b_scale: ir.Value,
    b_zero: ir.Value,
    scale: ir.Value,
    zero: ir.Value,
) -> ir.Value:
    """The product of integers, in the scale of the result."""
    product = matmul_integer(e, a, b, a_zero, b_zero)
    number = e.op("Mul", e.cast(product, e.dtype(scale)), e.op("Mul", a_scale, b_scale))
    return quantised(e, number, scale, zero)


@expands("QLinearConv")
def qlinear_conv(
    e: Expander,
    x: ir.Value,
    x_scale: ir.Value,
    x_zero: ir.Value,
    weight: ir.Value,
    weight_scale: ir.Value,
    weight_zero: ir.Value,
    scale: ir.Value,
    zero: ir.Value,
    bias: ir.Value | None = None,
    **places: Any,
) -> ir.Value:
    """A convolution of integers with a bias of integers, in the scale of the result."""
    data = e.op("Sub", e.cast(x, _FLOAT), e.cast(x_zero, _FLOAT))
    point = _filters(e, weight_zero, e.rank(weight))
    kernel = e.op("Sub", e.cast(weight, _FLOAT), point)
    given = None if bias is None else e.cast(bias, _FLOAT)
    number = e.op("Conv", data, kernel, given, **places)
    factor = e.op("Mul", x_scale, weight_scale)
    if e.rank(weight_scale):
        factor = e.op("Reshape", factor, e.constant([-1] + [1] * (e.rank(weight) - 2)))
    return quantised(e, e.op("Mul", number, factor), scale, zero)


@expands("com.microsoft::QGemm")
def qgemm(
    e: Expander,
    a: ir.Value,
    a_scale: ir.Value,
    a_zero: ir.Value,
    b: ir.Value,
    b_scale: ir.Value,
    b_zero: ir.Value,
    bias: ir.Value | None = None,
    scale: ir.Value | None = None,
    zero: ir.Value | None = None,
    *,
    alpha: float = 1.0,
    transA: int = 0,
    transB: int = 0,
) -> ir.Value:
    """alpha a b + bias of integers; float32 where no scale of the result is given."""
    left, right = _whole(e, a, a_zero), _whole(e, b, b_zero)
    left = e.swapped(left, 2) if transA else left
    if transB and b_zero is not None and e.rank(b_zero) and e.sizes(b_zero) != (1,):
        raise ValueError("zero points of rows are not supported")
    product = e.op("MatMul", left, e.swapped(right, 2) if transB else right)
    total = product if bias is None else e.op("Add", product, bias)
    factor = e.op("Mul", e.op("Mul", a_scale, b_scale), e.constant(alpha, _FLOAT))
    number = e.op("Mul", e.cast(total, _FLOAT), factor)
    return number if scale is None else quantised(e, number, scale, zero)


@expands("com.microsoft::MatMulIntegerToFloat")
def matmul_integer_to_float(
    e: Expander,
    a: ir.Value,
    b: ir.Value,
    a_scale: ir.Value,
    b_scale: ir.Value,
    a_zero: ir.Value | None = None,
    b_zero: ir.Value | None = None,
    bias: ir.Value | None = None,
) -> ir.Value:
    """The product of integers as numbers."""
    product = e.cast(matmul_integer(e, a, b, a_zero, b_zero), e.dtype(a_scale))
    found = e.op("Mul", product, e.op("Mul", a_scale, b_scale))
    return found if bias is None else e.op("Add", found, bias)


@expands("com.microsoft::DynamicQuantizeMatMul")
def dynamic_quantize_matmul(
    e: Expander,
    a: ir.Value,
    b: ir.Value,
    b_scale: ir.Value,
    b_zero: ir.Value | None = None,
    bias: ir.Value | None = None,
) -> ir.Value:
    """A product whose left side is quantised on the way."""
    whole, a_scale, a_zero = dynamic_quantize_linear(e, a)
    left = e.op("Sub", e.cast(whole, _INT32), e.cast(a_zero, _INT32))
    product = e.cast(e.op("MatMul", left, _whole(e, b, b_zero)), _FLOAT)
    found = e.op("Mul", product, e.op("Mul", a_scale, b_scale))
    return found if bias is None else e.op("Add", found, bias)
