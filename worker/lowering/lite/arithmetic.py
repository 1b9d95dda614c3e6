"""Arithmetic of .ms files: MindIR's primitives for numbers, with an activation behind them."""

from __future__ import annotations

from ..builder import (
    Builder,
    Value,
    arithmetic,
    lowers,
    lowers_each,
)
from .activation import activated


@lowers_each(
    "op_type",
    {"Lite.AddFusion": "Add", "Lite.SubFusion": "Sub", "Lite.MulFusion": "Mul"},
)
def fused(b: Builder, x: Value, y: Value, *, activation_type: str, op_type: str) -> Value:
    """ONNX's operator of two tensors."""
    return activated(b, arithmetic(b, op_type, x, y), activation_type)


@lowers("Lite.DivFusion")
def div(b: Builder, x: Value, y: Value, *, activation_type: str) -> Value:
    """MindIR's Div: a quotient; of integers, it is rounded towards zero."""
    return activated(b, arithmetic(b, "Div", x, y), activation_type)


@lowers("Lite.Eltwise")
def eltwise(b: Builder, x: Value, y: Value, *, mode: str) -> Value:
    """A product, sum or maximum, as Caffe has it."""
    operators = {"PROD": "Mul", "SUM": "Add", "MAXIMUM": "Max"}
    if mode not in operators:
        raise ValueError(f"the mode {mode} is not supported")
    return arithmetic(b, operators[mode], x, y)
