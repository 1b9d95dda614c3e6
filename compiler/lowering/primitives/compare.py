"""Comparisons, logic and bits: results are truth values or whole bit patterns."""

from __future__ import annotations

import numpy as np

from ...element_types.dtypes import is_float
from ..builder import (
    BOOL,
    FLOAT32,
    Builder,
    OnnxTensor,
    Value,
    arithmetic,
    as_dtype,
    common_dtype,
    is_number,
    lowers,
    lowers_each,
    number,
    operands,
    result_dtype,
    where,
)

_COMPARISONS = {
    "Equal": "Equal",
    "EqScalar": "Equal",
    "Greater": "Greater",
    "Less": "Less",
    "LessScalar": "Less",
    "GreaterEqual": "GreaterOrEqual",
    "GreaterEqualScalar": "GreaterOrEqual",
    "LessEqual": "LessOrEqual",
}


@lowers_each("op_type", _COMPARISONS)
def compared(b: Builder, input: Value, other: Value, *, op_type: str) -> OnnxTensor:
    """An ONNX comparison of values brought to one dtype."""
    dtype = common_dtype(input, other)
    return b.op(op_type, as_dtype(b, input, dtype), as_dtype(b, other, dtype))


@lowers_each("op_type", {"LogicalAnd": "And", "LogicalOr": "Or", "LogicalXor": "Xor"})
def logical(b: Builder, x: Value, y: Value, *, op_type: str) -> Value:
    """And, Or or Xor of truth values."""
    return b.op(op_type, as_dtype(b, x, BOOL), as_dtype(b, y, BOOL))


@lowers("BitwiseAnd", "BitwiseAndTensor", "BitwiseAndScalar", op_type="And")
@lowers("BitwiseOr", "BitwiseOrTensor", "BitwiseOrScalar", op_type="Or")
@lowers("BitwiseXor", "BitwiseXorTensor", "BitwiseXorScalar", op_type="Xor")
def bitwise(b: Builder, x: Value, y: Value, *, op_type: str) -> Value:
    """And, Or or Xor of bits."""
    x, y = operands(b, x, y)
    return b.op(op_type if x.dtype == BOOL else f"Bitwise{op_type}", x, y)


@lowers("EqualExt")
def all_equal(b: Builder, input: Value, other: Value) -> Value:
    """Whether two tensors have one shape and equal elements, as a vector of one."""
    x, y = b.tensor(input), b.tensor(other)
    if x.static and y.static and x.shape != y.shape:
        return np.asarray([False])
    return b.op("Reshape", b.op("ReduceMin", b.op("Equal", x, y), keepdims=0), (1,))


@lowers("NotEqual")
def not_equal(b: Builder, input: Value, other: Value) -> Value:
    """Whether elements differ."""
    return b.op("Not", compared(b, input, other, op_type="Equal"))


@lowers("LogicalNot")
def logical_not(b: Builder, input: Value) -> Value:
    """The opposite truth value."""
    return b.op("Not", as_dtype(b, input, BOOL))


@lowers("BitwiseNot", "Invert")
def bitwise_not(b: Builder, input: Value) -> Value:
    """The complement of all bits."""
    x = b.tensor(input)
    return b.op("Not" if x.dtype == BOOL else "BitwiseNot", x)


def _float(b: Builder, x: Value) -> OnnxTensor:
    tensor = b.tensor(x)
    return tensor if is_float(tensor.dtype) else b.cast(tensor, FLOAT32)


@lowers("IsNan", op_type="IsNaN")
@lowers("IsInf", op_type="IsInf")
def is_special(b: Builder, x: Value, *, op_type: str) -> Value:
    """Whether elements are NaN, or infinite."""
    return b.op(op_type, _float(b, x))


@lowers("IsFinite")
def is_finite(b: Builder, x: Value) -> Value:
    """Whether elements are neither infinite nor NaN."""
    x = _float(b, x)
    return b.op("Not", b.op("Or", b.op("IsNaN", x), b.op("IsInf", x)))


@lowers("IsClose")
def is_close(
    b: Builder,
    input: Value,
    other: Value,
    rtol: Value = 1e-5,
    atol: Value = 1e-8,
    equal_nan: Value = False,
) -> Value:
    """|input - other| <= atol + rtol * |other|; equal infinities are close, others not."""
    x, y = _float(b, input), _float(b, other)
    gap = b.op("Abs", b.op("Sub", x, y))
    bound = b.op("Add", b.op("Mul", b.op("Abs", y), number(rtol, "rtol")), number(atol, "atol"))
    near = b.op("And", b.op("LessOrEqual", gap, bound), b.op("Not", b.op("IsInf", gap)))
    close = b.op("Or", near, b.op("Equal", x, y))
    if not equal_nan:
        return close
    return b.op("Or", close, b.op("And", b.op("IsNaN", x), b.op("IsNaN", y)))


@lowers("ApproximateEqual")
def approximate_equal(b: Builder, x: Value, y: Value, *, tolerance: float = 1e-5) -> Value:
    """|x - y| < tolerance."""
    gap = arithmetic(b, "Sub", x, y, dtype=common_dtype(x, y))
    return b.op("Less", b.op("Abs", gap), tolerance)


@lowers("Select", "SelectV2")
def select(b: Builder, condition: Value, input: Value, other: Value) -> Value:
    """input where the condition holds, else other."""
    return where(b, condition, input, other, result_dtype(b, input, other))


@lowers("MaskedFill", "MaskedFillScalar")
def masked_fill(b: Builder, input_x: Value, mask: Value, value: Value) -> Value:
    """input_x with `value` where the mask holds."""
    return where(b, mask, value, input_x, FLOAT32 if is_number(input_x) else input_x.dtype)
