"""Arithmetic of .ms files: MindIR's primitives for numbers, with an activation behind them."""

from __future__ import annotations

import math

from ..builder import (
    INT64,
    Builder,
    OnnxTensor,
    Value,
    arithmetic,
    floating,
    integer,
    lowers,
    lowers_each,
)
from .activation import activated
from .layout import elementwise
from .results import as_mindir


@lowers_each("op_type", {"Lite.AddFusion": "Add", "Lite.SubFusion": "Sub", "Lite.MulFusion": "Mul"})
def fused(b: Builder, x: Value, y: Value, *, activation_type: str, op_type: str) -> Value:
    """ONNX's operator of two tensors."""
    return activated(b, arithmetic(b, op_type, x, y), activation_type)


@lowers("Lite.DivFusion")
def div(b: Builder, x: Value, y: Value, *, activation_type: str) -> Value:
    """ONNX's Div: a quotient; of integers, it is rounded towards zero."""
    return activated(b, arithmetic(b, "Div", x, y), activation_type)


@lowers("Lite.Eltwise")
def eltwise(b: Builder, x: Value, y: Value, *, mode: str) -> Value:
    """A product, sum or maximum, as Caffe has it."""
    operators = {"PROD": "Mul", "SUM": "Add", "MAXIMUM": "Max"}
    if mode not in operators:
        raise ValueError(f"the mode {mode} is not supported")
    return arithmetic(b, operators[mode], x, y)


@lowers("Lite.AddN")
def add_n(b: Builder, *tensors: Value) -> Value:
    """The sum of all inputs."""
    return as_mindir(b, "AddN", tensors)


@lowers("Lite.PowFusion")
def power(b: Builder, x: Value, exponent: Value, *, scale: float, shift: float) -> Value:
    """(scale * x + shift) to a power."""
    return arithmetic(b, "Pow", _line(b, b.tensor(x), scale, shift), exponent)


@lowers("Lite.ExpFusion")
def exponential(b: Builder, x: Value, *, base: float, scale: float, shift: float) -> Value:
    """A base (-1: e) to the power of scale * x + shift."""
    factor = 1.0 if base == -1 else math.log(base) if base > 0 else math.nan
    if math.isnan(factor):
        raise ValueError(f"the base {base} is not supported: expected -1 or a positive number")
    inner = _line(b, floating(b, x), scale * factor, shift * factor)
    return elementwise(b, inner, lambda y: b.op("Exp", y))


def _line(b: Builder, x: OnnxTensor, scale: float, shift: float) -> OnnxTensor:
    x = x if scale == 1 else b.op("Mul", x, scale)
    return b.op("Add", x, shift) if shift else x


@lowers("Lite.Cast")
def cast(b: Builder, x: Value, dtype: Value = None) -> Value:
    """MindIR's Cast; without a dtype, to the recorded one."""
    return x if dtype is None else as_mindir(b, "Cast", x, integer(dtype, "the dtype"))


@lowers("Lite.Dropout")
def dropout(b: Builder, x: Value) -> Value:
    """x itself; the mask has ones."""
    tensor = b.tensor(x)
    return as_mindir(b, "MakeTuple", tensor, as_mindir(b, "OnesLike", tensor))


@lowers("Lite.QuantDTypeCast")
def quant_cast(b: Builder, x: Value) -> Value:
    """x itself: what surrounds it quantises and dequantises."""
    return x


@lowers("Lite.InvertPermutation")
def invert_permutation(b: Builder, x: Value) -> Value:
    """The place of each index in a permutation."""
    _, order = b.ops(
        "TopK",
        b.cast(x, INT64),
        b.op("Shape", b.tensor(x)),
        outputs=2,
        largest=0,
    )
    return order


@lowers("Lite.CumSum")
def cum_sum(b: Builder, x: Value, axis: Value, *, exclusive: bool, reverse: bool) -> Value:
    """MindIR's CumSum."""
    return as_mindir(b, "CumSum", x, integer(axis, "the axis"), exclusive, reverse)
