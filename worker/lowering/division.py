"""Quotients and remainders in all their roundings."""

from __future__ import annotations

from ..dtypes import is_float
from .arguments import integer
from .builder import Builder, Value
from .math import arithmetic, as_dtype, result_dtype, where
from .registry import lowers


@lowers("DivNoNan", "Xdivy", "Xlogy")
def zero_where_zero(b: Builder, x: Value, y: Value) -> Value:
    """x / y or x * log(y), and 0 where y (DivNoNan) or x (the others) is 0."""
    primitive = b.node.primitive if b.node else ""
    dtype = result_dtype(b, x, y)
    x, y = as_dtype(b, x, dtype), as_dtype(b, y, dtype)
    value = b.op("Mul", x, b.op("Log", y)) if primitive == "Xlogy" else b.op("Div", x, y)
    return where(b, b.op("Equal", y if primitive == "DivNoNan" else x, 0), 0, value, dtype)


@lowers("FloorDiv", "FloorDivScalar")
def floor_div(b: Builder, input: Value, other: Value) -> Value:
    """The quotient rounded down; integers exactly, by way of the remainder."""
    dtype = result_dtype(b, input, other)
    if is_float(dtype):
        return b.op("Floor", arithmetic(b, "Div", input, other))
    return b.op("Div", b.op("Sub", as_dtype(b, input, dtype), floor_mod(b, input, other)), as_dtype(b, other, dtype))


@lowers("FloorMod", "RemainderTensorScalar", "RemainderScalarTensor", "RemainderTensorTensor")
def floor_mod(b: Builder, x: Value, y: Value) -> Value:
    """The remainder with the sign of the divisor, as Python has it."""
    dtype = result_dtype(b, x, y)
    x, y = as_dtype(b, x, dtype), as_dtype(b, y, dtype)
    if not is_float(dtype):
        return b.op("Mod", x, y)
    return b.op("Mod", b.op("Add", b.op("Mod", x, y, fmod=1), y), y, fmod=1)


@lowers("Mod", "TruncateMod", "FmodTensor", "FmodScalar")
def truncate_mod(b: Builder, x: Value, y: Value) -> Value:
    """The remainder with the sign of the dividend, as C has it."""
    dtype = result_dtype(b, x, y)
    return b.op("Mod", as_dtype(b, x, dtype), as_dtype(b, y, dtype), fmod=1)


@lowers("TruncateDiv")
def truncate_div(b: Builder, x: Value, y: Value) -> Value:
    """The quotient rounded towards zero."""
    quotient = arithmetic(b, "Div", x, y)
    return quotient if not is_float(quotient.dtype) else trunc(b, quotient)


@lowers("DivMod", "DivMods")
def div_mod(b: Builder, input: Value, other: Value, rounding_mode: Value = None) -> Value:
    """The quotient, rounded down (2), towards zero (1) or not."""
    if rounding_mode is None:
        return arithmetic(b, "Div", input, other)
    return floor_div(b, input, other) if integer(rounding_mode, "rounding_mode") == 2 else truncate_div(b, input, other)


@lowers("Trunc")
def trunc(b: Builder, input: Value) -> Value:
    """input rounded towards zero."""
    x = b.tensor(input)
    return x if not is_float(x.dtype) else b.op("Mul", b.op("Sign", x), b.op("Floor", b.op("Abs", x)))
