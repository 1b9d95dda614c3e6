"""Arithmetic: sums, products and functions of single elements."""

from __future__ import annotations

from functools import reduce

import numpy as np

from ...element_types import dtypes
from ..mindir.values import MindirValue
from .node_conversion import NodeConversion
from .registry import converts


@converts("Add", primitive="Add")
@converts("Sub", primitive="Sub")
@converts("Mul", primitive="Mul")
@converts("Pow", primitive="Pow")
def binary(c: NodeConversion, a: MindirValue, b: MindirValue, *, primitive: str) -> MindirValue:
    """Both sides are broadcast."""
    return c.apply(primitive, a, b)


@converts("Div")
def division(c: NodeConversion, a: MindirValue, b: MindirValue) -> MindirValue:
    """Integers are divided towards zero."""
    return c.apply("Div" if dtypes.is_float(a.dtype) else "TruncateDiv", a, b)


@converts("Mod")
def remainder(c: NodeConversion, a: MindirValue, b: MindirValue, *, fmod: int = 0) -> MindirValue:
    """The sign is that of the divisor, with `fmod` that of the dividend."""
    return c.apply("Mod" if fmod else "FloorMod", a, b)


@converts("Min", primitive="Minimum")
@converts("Max", primitive="Maximum")
@converts("Sum", primitive="Add")
def many(c: NodeConversion, *values: MindirValue, primitive: str) -> MindirValue:
    """Any number of operands."""
    return reduce(lambda a, b: c.apply(primitive, a, b), values)


@converts("Mean")
def mean(c: NodeConversion, *values: MindirValue) -> MindirValue:
    """The sum of all operands, divided by their number."""
    count = np.asarray(len(values), c.type.dtype)
    return c.apply("Div", many(c, *values, primitive="Add"), count)


@converts("Abs", primitive="Abs")
@converts("Acos", primitive="ACos")
@converts("Acosh", primitive="Acosh")
@converts("Asin", primitive="Asin")
@converts("Asinh", primitive="Asinh")
@converts("Atan", primitive="Atan")
@converts("Atanh", primitive="Atanh")
@converts("Ceil", primitive="Ceil")
@converts("Cos", primitive="Cos")
@converts("Cosh", primitive="Cosh")
@converts("Erf", primitive="Erf")
@converts("Exp", primitive="Exp")
@converts("Floor", primitive="Floor")
@converts("Log", primitive="Log")
@converts("Neg", primitive="Neg")
@converts("Reciprocal", primitive="Reciprocal")
@converts("Sign", primitive="Sign")
@converts("Sin", primitive="Sin")
@converts("Sinh", primitive="Sinh")
@converts("Sqrt", primitive="Sqrt")
@converts("Tan", primitive="Tan")
def unary(c: NodeConversion, x: MindirValue, *, primitive: str) -> MindirValue:
    """A function of each element."""
    return c.apply(primitive, x)


@converts("Round")
def rounding(c: NodeConversion, x: MindirValue) -> MindirValue:
    """Half to even."""
    return c.apply("Round", x, 0)
