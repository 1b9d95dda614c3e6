"""Special functions: those without an ONNX operator, by series or from other operators."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from ...element_types.dtypes import is_float, limits
from ..builder import (
    FLOAT64,
    INT64,
    Builder,
    OnnxTensor,
    Value,
    arithmetic,
    as_dtype,
    floating,
    integer,
    lowers,
    lowers_each,
    number,
    operands,
    result_dtype,
    where,
)
from .math import trunc

# C. Lanczos' approximation with g = 7 and 9 terms.
_LANCZOS = (
    0.99999999999980993,
    676.5203681218851,
    -1259.1392167224028,
    771.32342877765313,
    -176.61502916214059,
    12.507343278686905,
    -0.13857109526572012,
    9.9843695780195716e-6,
    1.5056327351493116e-7,
)
# B. C. Giles, "Approximating the erfinv function", GPU Computing Gems, 2012: near 0, and in the
# tails.
_ERFINV = (
    2.81022636e-08,
    3.43273939e-07,
    -3.5233877e-06,
    -4.39150654e-06,
    0.00021858087,
    -0.00125372503,
    -0.00417768164,
    0.246640727,
    1.50140941,
)
_ERFINV_TAIL = (
    -0.000200214257,
    0.000100950558,
    0.00134934322,
    -0.00367342844,
    0.00573950773,
    -0.0076224613,
    0.00943887047,
    1.00167406,
    2.83297682,
)


def _polynomial(b: Builder, x: OnnxTensor, coefficients: Sequence[float]) -> OnnxTensor:
    """By Horner's rule, the highest power first."""
    total = b.tensor(coefficients[0], x.dtype)
    for coefficient in coefficients[1:]:
        total = b.op("Add", b.op("Mul", total, x), coefficient)
    return total


def _lgamma(b: Builder, x: OnnxTensor) -> OnnxTensor:
    """log|gamma(x)|; below 1/2 by reflection, as log(pi / |sin(pi x)|) - lgamma(1 - x)."""
    low = b.op("Less", x, 0.5)
    z = b.op("Sub", where(b, low, b.op("Sub", b.tensor(1.0, x.dtype), x), x, x.dtype), 1.0)
    series = b.tensor(_LANCZOS[0], x.dtype)
    for at, coefficient in enumerate(_LANCZOS[1:], 1):
        series = b.op(
            "Add", series, b.op("Div", b.tensor(coefficient, x.dtype), b.op("Add", z, float(at)))
        )
    t = b.op("Add", z, 7.5)
    high = b.op(
        "Add",
        b.op("Sub", b.op("Mul", b.op("Add", z, 0.5), b.op("Log", t)), t),
        b.op("Add", b.op("Log", series), 0.5 * math.log(2 * math.pi)),
    )
    sine = b.op("Abs", b.op("Sin", b.op("Mul", x, math.pi)))
    return where(
        b,
        low,
        b.op("Sub", b.op("Sub", b.tensor(math.log(math.pi), x.dtype), b.op("Log", sine)), high),
        high,
        x.dtype,
    )


def _digamma(b: Builder, x: OnnxTensor) -> OnnxTensor:
    """The derivative of log(gamma(x)): six steps up, then a series; below 1/2 by reflection."""
    low = b.op("Less", x, 0.5)
    z = where(b, low, b.op("Sub", b.tensor(1.0, x.dtype), x), x, x.dtype)
    steps = b.op("Reciprocal", z)
    for at in range(1, 6):
        steps = b.op("Add", steps, b.op("Reciprocal", b.op("Add", z, float(at))))
    z = b.op("Add", z, 6.0)
    inverse = b.op("Reciprocal", b.op("Mul", z, z))
    tail = b.op("Mul", _polynomial(b, inverse, (1 / 252, -1 / 120, 1 / 12)), inverse)
    high = b.op(
        "Sub",
        b.op("Sub", b.op("Log", z), b.op("Div", b.tensor(0.5, x.dtype), z)),
        b.op("Add", tail, steps),
    )
    angle = b.op("Mul", x, math.pi)
    turn = b.op("Mul", b.op("Div", b.op("Cos", angle), b.op("Sin", angle)), math.pi)
    return where(b, low, b.op("Sub", high, turn), high, x.dtype)


def _erfinv(b: Builder, x: OnnxTensor) -> OnnxTensor:
    one = b.tensor(1.0, x.dtype)
    w = b.op("Neg", b.op("Log", b.op("Mul", b.op("Sub", one, x), b.op("Add", one, x))))
    near = _polynomial(b, b.op("Sub", w, 2.5), _ERFINV)
    tail = _polynomial(b, b.op("Sub", b.op("Sqrt", w), 3.0), _ERFINV_TAIL)
    inside = b.op("Mul", where(b, b.op("Less", w, 5.0), near, tail, x.dtype), x)
    at_end = b.op("Equal", b.op("Abs", x), 1.0)
    return where(b, at_end, b.op("Div", x, b.tensor(0.0, x.dtype)), inside, x.dtype)


_SERIES = {"Lgamma": _lgamma, "Digamma": _digamma, "Erfinv": _erfinv}


@lowers_each("function", _SERIES)
def series(
    b: Builder, input: Value, *, function: Callable[[Builder, OnnxTensor], OnnxTensor]
) -> Value:
    """A function of one tensor, computed in float64."""
    x = floating(b, input)
    return b.cast(function(b, b.cast(x, FLOAT64)), x.dtype)


@lowers_each("scale", {"LogAddExp": 1.0, "LogAddExp2": math.log(2)})
def log_add_exp(b: Builder, input: Value, other: Value, *, scale: float) -> Value:
    """log(exp(scale * input) + exp(scale * other)) / scale; a scale of log(2) is base 2."""
    dtype = result_dtype(b, input, other)
    x, y = (b.op("Mul", as_dtype(b, value, dtype), scale) for value in (input, other))
    large, gap = b.op("Max", x, y), b.op("Neg", b.op("Abs", b.op("Sub", x, y)))
    return b.op("Div", b.op("Add", large, b.op("Softplus", gap)), scale)


@lowers("Hypot")
def hypotenuse(b: Builder, x1: Value, x2: Value) -> Value:
    """The square root of the sum of both squares."""
    squares = [b.op("Mul", x, x) for x in (b.tensor(x1), b.tensor(x2))]
    return b.op("Sqrt", b.op("Add", *squares))


@lowers_each("op_type", {"Fmax": "Max", "Fmin": "Min"})
def extreme_number(b: Builder, x1: Value, x2: Value, *, op_type: str) -> Value:
    """The larger or smaller of two; where one is NaN, the other."""
    x, y = operands(b, x1, x2)
    found = b.op(op_type, x, y)
    if not is_float(x.dtype):
        return found
    x_is_nan, y_is_nan = b.op("IsNaN", x), b.op("IsNaN", y)
    return where(b, x_is_nan, y, where(b, y_is_nan, x, found, x.dtype), x.dtype)


@lowers("Heaviside")
def heaviside(b: Builder, x: Value, values: Value) -> Value:
    """0 below 0, 1 above it, and a value at 0."""
    tensor = b.tensor(x)
    step = b.cast(b.op("Greater", tensor, 0), tensor.dtype)
    return where(b, b.op("Equal", tensor, 0), values, step, tensor.dtype)


@lowers("MulNoNan")
def multiply_no_nan(b: Builder, x: Value, y: Value) -> Value:
    """x * y, and 0 where y is 0."""
    dtype = result_dtype(b, x, y)
    return where(b, b.op("Equal", as_dtype(b, y, dtype), 0), 0, arithmetic(b, "Mul", x, y), dtype)


@lowers_each("left", {"LeftShift": True, "RightShift": False})
def shift(b: Builder, input_x: Value, input_y: Value, *, left: bool) -> Value:
    """Bits moved by so many places; to the right the sign stays."""
    x = b.tensor(input_x)
    places = as_dtype(b, input_y, INT64)
    power = b.op("Gather", np.left_shift(np.int64(1), np.arange(64)), places, axis=0)
    wide = b.cast(x, INT64)
    if left:
        return b.cast(b.op("Mul", wide, power), x.dtype)
    return b.cast(b.op("Div", b.op("Sub", wide, b.op("Mod", wide, power)), power), x.dtype)


@lowers("Frac")
def fraction(b: Builder, input: Value) -> Value:
    """input without its whole part."""
    x = b.tensor(input)
    return b.op("Sub", x, trunc(b, x))


@lowers("Sinc")
def sinc(b: Builder, input: Value) -> Value:
    """sin(pi x) / (pi x), 1 at 0."""
    x = floating(b, input)
    angle = b.op("Mul", x, math.pi)
    return where(b, b.op("Equal", x, 0.0), 1.0, b.op("Div", b.op("Sin", angle), angle), x.dtype)


@lowers("IsNegInf")
def is_negative_infinity(b: Builder, input: Value) -> Value:
    """Whether elements are minus infinity."""
    return b.op("IsInf", floating(b, input), detect_positive=0)


@lowers("NanToNum")
def nan_to_num(
    b: Builder, input: Value, nan: Value = None, posinf: Value = None, neginf: Value = None
) -> Value:
    """Numbers in place of NaN and infinities: by default 0 and the ends of the dtype's range."""
    x = b.tensor(input)
    if not is_float(x.dtype):
        return x
    low, high = limits(x.dtype)
    high = high if posinf is None else number(posinf, "posinf")
    low = low if neginf is None else number(neginf, "neginf")
    y = where(b, b.op("IsNaN", x), 0.0 if nan is None else number(nan, "nan"), x, x.dtype)
    y = where(b, b.op("IsInf", x, detect_negative=0), high, y, x.dtype)
    return where(b, b.op("IsInf", x, detect_positive=0), low, y, x.dtype)


@lowers("Atan2", "Atan2Ext")
def atan2(b: Builder, input: Value, other: Value) -> Value:
    """The angle of the point (other, input), in its right quadrant."""
    y, x = operands(b, input, other)
    angle = b.op("Atan", b.op("Div", y, x))
    turn = where(b, b.op("Less", y, 0.0), -math.pi, math.pi, x.dtype)
    on_axis, upright = b.op("Equal", x, 0.0), b.op("Mul", b.op("Sign", y), math.pi / 2)
    right = where(b, on_axis, upright, angle, x.dtype)
    return where(b, b.op("Less", x, 0.0), b.op("Add", angle, turn), right, x.dtype)


@lowers("Cross")
def cross(b: Builder, input: Value, other: Value, dim: Value = -65530) -> Value:
    """The cross products of vectors along dim, by default the first axis of three."""
    x, y = operands(b, input, other)
    axis = integer(dim, "dim")
    if axis == -65530:
        if 3 not in (x.shape or ()):
            raise ValueError("no axis is known to have the size 3: name it")
        axis = (x.shape or ()).index(3)
    (x1, x2), (y1, y2) = (
        [b.op("Gather", value, np.array(order), axis=axis) for order in ([1, 2, 0], [2, 0, 1])]
        for value in (x, y)
    )
    return b.op("Sub", b.op("Mul", x1, y2), b.op("Mul", x2, y1))
