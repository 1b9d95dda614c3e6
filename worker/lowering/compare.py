"""Comparisons, logic and bits: results are truth values or whole bit patterns."""

from __future__ import annotations

import numpy as np

from ..dtypes import is_float
from .arguments import is_number, number
from .builder import Builder, Tensor, Value
from .math import arithmetic, as_dtype, common_dtype, result_dtype, where
from .registry import Lower, lowers

_BOOL = np.dtype(np.bool_)
_COMPARE = {
    "Equal": "Equal", "EqScalar": "Equal", "Greater": "Greater", "Less": "Less", "LessScalar": "Less",
    "GreaterEqual": "GreaterOrEqual", "GreaterEqualScalar": "GreaterOrEqual", "LessEqual": "LessOrEqual",
}
_LOGIC = {"LogicalAnd": "And", "LogicalOr": "Or", "LogicalXor": "Xor"}
_BITS = {"BitwiseAnd": "And", "BitwiseOr": "Or", "BitwiseXor": "Xor"}


def compared(b: Builder, op_type: str, x: Value, y: Value) -> Tensor:
    """An ONNX comparison of values brought to one dtype."""
    dtype = common_dtype(x, y)
    result: Tensor = b.op(op_type, as_dtype(b, x, dtype), as_dtype(b, y, dtype))
    return result


def _compare(op_type: str) -> Lower:
    def lower(b: Builder, input: Value, other: Value) -> Value:
        return compared(b, op_type, input, other)

    return lower


def _logic(op_type: str) -> Lower:
    def lower(b: Builder, x: Value, y: Value) -> Value:
        return b.op(op_type, as_dtype(b, x, _BOOL), as_dtype(b, y, _BOOL))

    return lower


def _bits(op_type: str) -> Lower:
    def lower(b: Builder, x: Value, y: Value) -> Value:
        dtype = result_dtype(b, x, y)
        return b.op(op_type if dtype == _BOOL else f"Bitwise{op_type}", as_dtype(b, x, dtype), as_dtype(b, y, dtype))

    return lower


for _primitive, _op_type in _COMPARE.items():
    lowers(_primitive)(_compare(_op_type))
for _primitive, _op_type in _LOGIC.items():
    lowers(_primitive)(_logic(_op_type))
for _primitive, _op_type in _BITS.items():
    lowers(_primitive, f"{_primitive}Tensor", f"{_primitive}Scalar")(_bits(_op_type))


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
    return b.op("Not", compared(b, "Equal", input, other))


@lowers("LogicalNot")
def logical_not(b: Builder, input: Value) -> Value:
    """The opposite truth value."""
    return b.op("Not", as_dtype(b, input, _BOOL))


@lowers("BitwiseNot", "Invert")
def bitwise_not(b: Builder, input: Value) -> Value:
    """All bits turned round."""
    x = b.tensor(input)
    return b.op("Not" if x.dtype == _BOOL else "BitwiseNot", x)


def _float(b: Builder, x: Value) -> Tensor:
    tensor = b.tensor(x)
    return tensor if is_float(tensor.dtype) else b.cast(tensor, np.dtype(np.float32))


@lowers("IsNan")
def is_nan(b: Builder, x: Value) -> Value:
    """Whether elements are no numbers."""
    return b.op("IsNaN", _float(b, x))


@lowers("IsInf")
def is_inf(b: Builder, x: Value) -> Value:
    """Whether elements are infinite."""
    return b.op("IsInf", _float(b, x))


@lowers("IsFinite")
def is_finite(b: Builder, x: Value) -> Value:
    """Whether elements are neither infinite nor no numbers."""
    x = _float(b, x)
    return b.op("Not", b.op("Or", b.op("IsNaN", x), b.op("IsInf", x)))


@lowers("IsClose")
def is_close(b: Builder, input: Value, other: Value, rtol: Value = 1e-5, atol: Value = 1e-8,
             equal_nan: Value = False) -> Value:
    """|input - other| <= atol + rtol * |other|; equal infinities are close, others not."""
    x, y = _float(b, input), _float(b, other)
    gap = b.op("Abs", b.op("Sub", x, y))
    bound = b.op("Add", b.op("Mul", b.op("Abs", y), number(rtol, "rtol")), number(atol, "atol"))
    near = b.op("And", b.op("LessOrEqual", gap, bound), b.op("Not", b.op("IsInf", gap)))
    close = b.op("Or", near, b.op("Equal", x, y))
    return close if not equal_nan else b.op("Or", close, b.op("And", b.op("IsNaN", x), b.op("IsNaN", y)))


@lowers("ApproximateEqual")
def approximate_equal(b: Builder, x: Value, y: Value, *, tolerance: float = 1e-5) -> Value:
    """|x - y| < tolerance."""
    return b.op("Less", b.op("Abs", arithmetic(b, "Sub", x, y, dtype=common_dtype(x, y))), tolerance)


@lowers("Select", "SelectV2")
def select(b: Builder, condition: Value, input: Value, other: Value) -> Value:
    """input where the condition holds, else other."""
    return where(b, condition, input, other, result_dtype(b, input, other))


@lowers("MaskedFill", "MaskedFillScalar")
def masked_fill(b: Builder, input_x: Value, mask: Value, value: Value) -> Value:
    """input_x with `value` where the mask holds."""
    dtype = np.dtype(np.float32) if is_number(input_x) else input_x.dtype
    return where(b, mask, value, input_x, dtype)
