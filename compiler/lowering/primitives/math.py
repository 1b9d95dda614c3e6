"""Elementwise arithmetic: functions of one or two tensors, quotients and remainders."""

from __future__ import annotations

import math

import numpy as np

from ...element_types.dtypes import is_float
from ..builder import (
    Builder,
    ComplexPair,
    OnnxTensor,
    Value,
    arithmetic,
    as_dtype,
    dtype_of,
    floating,
    integer,
    is_number,
    lowers,
    lowers_each,
    number,
    operands,
    result_dtype,
    where,
)
from .complex_numbers import product, total

_BINARY = {
    "Sub": "Sub",
    "Muls": "Mul",
    "Div": "Div",
    "Divs": "Div",
    "RealDiv": "Div",
    "Maximum": "Max",
    "Minimum": "Min",
    "Pow": "Pow",
    "PowTensorScalar": "Pow",
    "PowScalarTensor": "Pow",
}
_OF_INTEGERS_TOO = {name: name for name in ("Abs", "Neg", "Sign")}
_SAME_NAME = (
    "Floor Ceil Sqrt Reciprocal Exp Log Erf Sin Cos Tan Asin Atan Sinh Cosh Asinh Acosh Atanh Tanh "
    "Sigmoid"
)
_OF_FLOATS = {
    **{name: name for name in _SAME_NAME.split()},
    "Rint": "Round",
    "Inv": "Reciprocal",
    "ACos": "Acos",
    "AcosExt": "Acos",
    "AsinExt": "Asin",
    "AtanExt": "Atan",
    "AsinhExt": "Asinh",
    "AcoshExt": "Acosh",
}


@lowers_each("op_type", _BINARY)
def binary(b: Builder, input: Value, other: Value, *, op_type: str) -> Value:
    """An ONNX operator of two tensors in their common dtype."""
    if op_type == "Sub" and any(isinstance(value, ComplexPair) for value in (input, other)):
        return total(b, op_type, input, other)
    return arithmetic(b, op_type, input, other)


@lowers_each("op_type", _OF_INTEGERS_TOO)
def unary(b: Builder, input: Value, *, op_type: str) -> Value:
    """An ONNX operator of one tensor."""
    return b.op(op_type, b.tensor(input))


@lowers_each("op_type", _OF_FLOATS)
def unary_float(b: Builder, input: Value, *, op_type: str) -> Value:
    """An ONNX operator of one tensor of floats; integers become floats first."""
    return b.op(op_type, floating(b, b.tensor(input)))


@lowers("Mul")
def mul(b: Builder, input: Value, other: Value) -> Value:
    """input * other; x * rsqrt(v) becomes x / sqrt(v), RMSNorm's form that onnxruntime fuses."""
    if any(isinstance(value, ComplexPair) for value in (input, other)):
        return product(b, input, other)
    root = b.made(other, "Reciprocal")
    if root and b.made(root.inputs[0], "Sqrt") and isinstance(input, OnnxTensor):
        return arithmetic(b, "Div", input, root.inputs[0])
    return arithmetic(b, "Mul", input, other)


@lowers("Rsqrt")
def rsqrt(b: Builder, input: Value) -> Value:
    """1 / sqrt(input)."""
    return b.op("Reciprocal", b.op("Sqrt", floating(b, input)))


@lowers("Square")
def square(b: Builder, input: Value) -> Value:
    """input squared: as Pow, which onnxruntime looks for in RMSNorm and computes by multiplying."""
    x = b.tensor(input)
    return b.op("Pow", x, 2.0) if is_float(x.dtype) else b.op("Mul", x, x)


@lowers("AddExt", "AddScalar", op_type="Add")
@lowers("SubExt", "SubScalar", op_type="Sub")
def add_ext(b: Builder, input: Value, other: Value, alpha: Value = 1, *, op_type: str) -> Value:
    """input + alpha * other, or minus."""
    scaled = other if number(alpha, "alpha") == 1 else arithmetic(b, "Mul", other, alpha)
    return arithmetic(b, op_type, input, scaled)


@lowers("AddN", "AccumulateNV2")
def add_n(b: Builder, x: Value) -> Value:
    """The sum of a tuple of tensors."""
    found = x[0]
    for item in x[1:]:
        found = arithmetic(b, "Add", found, item)
    return found


@lowers("Addcmul", "AddcmulExt", op_type="Mul")
@lowers("Addcdiv", "AddcdivExt", op_type="Div")
def addcmul(
    b: Builder, input: Value, tensor1: Value, tensor2: Value, value: Value = 1.0, *, op_type: str
) -> Value:
    """input + value * tensor1 * tensor2, or divided by tensor2."""
    scaled = arithmetic(b, "Mul", tensor1, value)
    return arithmetic(b, "Add", input, arithmetic(b, op_type, scaled, tensor2))


@lowers("Lerp", "LerpScalar")
def lerp(b: Builder, input: Value, end: Value, weight: Value) -> Value:
    """input + weight * (end - input)."""
    gap = arithmetic(b, "Sub", end, input)
    return arithmetic(b, "Add", input, arithmetic(b, "Mul", gap, weight))


@lowers("SquaredDifference")
def squared_difference(b: Builder, x: Value, y: Value) -> Value:
    """(x - y) squared."""
    difference = arithmetic(b, "Sub", x, y)
    return b.op("Mul", difference, difference)


@lowers("Round")
def round_half_even(b: Builder, input: Value, decimals: Value = 0) -> Value:
    """input rounded to so many decimals, halves to even."""
    x, places = b.tensor(input), integer(decimals, "decimals")
    if not is_float(x.dtype):
        return x
    scale = 10.0**places
    return b.op("Div", b.op("Round", b.op("Mul", x, scale)), scale) if places else b.op("Round", x)


@lowers("Trunc")
def trunc(b: Builder, input: Value) -> Value:
    """input rounded towards zero."""
    x = b.tensor(input)
    if not is_float(x.dtype):
        return x
    return b.op("Mul", b.op("Sign", x), b.op("Floor", b.op("Abs", x)))


@lowers("Expm1")
def expm1(b: Builder, input: Value) -> Value:
    """exp(input) - 1."""
    return b.op("Sub", b.op("Exp", floating(b, input)), 1.0)


@lowers("Log1p")
def log1p(b: Builder, input: Value) -> Value:
    """log(1 + input)."""
    return b.op("Log", b.op("Add", floating(b, input), 1.0))


@lowers_each("base", {"Log2": 2, "Log10": 10})
def log_to_base(b: Builder, input: Value, *, base: int) -> Value:
    """The logarithm to the base 2 or 10."""
    return b.op("Div", b.op("Log", floating(b, input)), math.log(base))


@lowers("Exp2")
def exp2(b: Builder, input: Value) -> Value:
    """2 to the power of input."""
    return b.op("Exp", b.op("Mul", floating(b, input), math.log(2)))


@lowers("Erfc")
def erfc(b: Builder, input: Value) -> Value:
    """1 - erf(input)."""
    x = floating(b, input)
    return b.op("Sub", b.tensor(1.0, x.dtype), b.op("Erf", x))


@lowers("ClampScalar", "ClampTensor", "ClampMin")
def clamp(b: Builder, input: Value, min: Value = None, max: Value = None) -> Value:
    """input held between two bounds, each optional."""
    dtype = result_dtype(b, input)
    x = as_dtype(b, input, dtype)
    if min is not None:
        x = arithmetic(b, "Max", x, min, dtype=dtype)
    return x if max is None else arithmetic(b, "Min", x, max, dtype=dtype)


@lowers("TypeAs")
def type_as(b: Builder, input: Value, other: Value) -> Value:
    """input in the dtype of other."""
    return as_dtype(b, input, b.tensor(other).dtype)


@lowers("Cast")
def cast(
    b: Builder, x: Value, dtype: Value = None, *, dst_type: Value = None, DstT: Value = None
) -> Value:
    """x in the dtype that a type id names, or the attribute of an old file."""
    named = next((d for d in (dtype, dst_type, DstT) if d is not None), None)
    wanted = dtype_of(named, result_dtype(b, x))
    return np.asarray(x, wanted) if is_number(x) else as_dtype(b, x, wanted)


@lowers("Xdivy")
def x_div_y(b: Builder, x: Value, y: Value) -> Value:
    """x / y, and 0 where x is 0."""
    x, y = operands(b, x, y)
    return _zero_where_zero(b, x, b.op("Div", x, y))


@lowers("DivNoNan")
def div_no_nan(b: Builder, x: Value, y: Value) -> Value:
    """x / y, and 0 where y is 0."""
    x, y = operands(b, x, y)
    return _zero_where_zero(b, y, b.op("Div", x, y))


@lowers("Xlogy", "XLogYScalarSelf", "XLogYScalarOther")
def x_log_y(b: Builder, x: Value, y: Value) -> Value:
    """x * log(y), and 0 where x is 0."""
    x, y = operands(b, x, y)
    return _zero_where_zero(b, x, b.op("Mul", x, b.op("Log", y)))


def _zero_where_zero(b: Builder, x: OnnxTensor, value: OnnxTensor) -> OnnxTensor:
    return where(b, b.op("Equal", x, 0), 0, value, x.dtype)


@lowers("FloorDiv", "FloorDivScalar")
def floor_div(b: Builder, input: Value, other: Value) -> Value:
    """The quotient rounded down; of integers exactly, by way of the remainder."""
    dtype = result_dtype(b, input, other)
    if is_float(dtype):
        return b.op("Floor", arithmetic(b, "Div", input, other))
    whole = b.op("Sub", as_dtype(b, input, dtype), floor_mod(b, input, other))
    return b.op("Div", whole, as_dtype(b, other, dtype))


@lowers("FloorMod", "RemainderTensorScalar", "RemainderScalarTensor", "RemainderTensorTensor")
def floor_mod(b: Builder, x: Value, y: Value) -> Value:
    """The remainder with the sign of the divisor, as in Python."""
    x, y = operands(b, x, y)
    if not is_float(x.dtype):
        return b.op("Mod", x, y)
    return b.op("Mod", b.op("Add", b.op("Mod", x, y, fmod=1), y), y, fmod=1)


@lowers("Mod", "TruncateMod", "FmodTensor", "FmodScalar")
def truncate_mod(b: Builder, x: Value, y: Value) -> Value:
    """The remainder with the sign of the dividend, as in C."""
    return b.op("Mod", *operands(b, x, y), fmod=1)


@lowers("TruncateDiv")
def truncate_div(b: Builder, x: Value, y: Value) -> Value:
    """The quotient rounded towards zero."""
    return trunc(b, arithmetic(b, "Div", x, y))


@lowers("DivMod", "DivMods")
def div_mod(b: Builder, input: Value, other: Value, rounding_mode: Value = None) -> Value:
    """The quotient, rounded down (2), towards zero (1) or not."""
    if rounding_mode is None:
        return arithmetic(b, "Div", input, other)
    down = integer(rounding_mode, "rounding_mode") == 2
    return floor_div(b, input, other) if down else truncate_div(b, input, other)
