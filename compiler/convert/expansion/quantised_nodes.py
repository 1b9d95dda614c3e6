"""Quantised nodes: operators on integers that compute with the numbers these stand for.

Source: the schemas of onnxruntime, domain com.microsoft.
"""

from __future__ import annotations

from typing import Any

import onnx_ir as ir

from .expander import Expander
from .quantised import quantised, real
from .registry import expands


@expands("com.microsoft::QLinearAdd", "com.microsoft::QLinearMul")
def sum_or_product(
    e: Expander,
    a: ir.Value,
    a_scale: ir.Value,
    a_zero: ir.Value | None,
    b: ir.Value,
    b_scale: ir.Value,
    b_zero: ir.Value | None,
    scale: ir.Value,
    zero: ir.Value | None = None,
) -> ir.Value:
    """Both sides are broadcast."""
    operator = e.node.op_type.removeprefix("QLinear")
    found = e.op(operator, real(e, a, a_scale, a_zero), real(e, b, b_scale, b_zero))
    return quantised(e, found, scale, zero)


@expands(
    "com.microsoft::QLinearSigmoid",
    "com.microsoft::QLinearLeakyRelu",
    "com.microsoft::QLinearAveragePool",
)
def of_one(
    e: Expander,
    x: ir.Value,
    x_scale: ir.Value,
    x_zero: ir.Value | None,
    scale: ir.Value,
    zero: ir.Value | None = None,
    *,
    channels_last: int = 0,
    **how: Any,
) -> ir.Value:
    """An operator of one number."""
    if channels_last:
        raise ValueError("images with their channels last are not supported")
    operator = e.node.op_type.removeprefix("QLinear")
    return quantised(e, e.op(operator, real(e, x, x_scale, x_zero), **how), scale, zero)


@expands("com.microsoft::QLinearGlobalAveragePool")
def global_average(
    e: Expander,
    x: ir.Value,
    x_scale: ir.Value,
    x_zero: ir.Value | None,
    scale: ir.Value,
    zero: ir.Value | None = None,
    *,
    channels_last: int = 0,
) -> ir.Value:
    """The mean of each channel."""
    return of_one(e, x, x_scale, x_zero, scale, zero, channels_last=channels_last)


@expands("com.microsoft::QLinearSoftmax")
def softmax(
    e: Expander,
    x: ir.Value,
    x_scale: ir.Value,
    x_zero: ir.Value | None,
    scale: ir.Value,
    zero: ir.Value | None = None,
    *,
    axis: int = -1,
    opset: int = 13,
) -> ir.Value:
    """Along one axis; before opset 13, along all axes from that one on."""
    if opset < 13 and axis % e.rank(x) != e.rank(x) - 1:
        raise ValueError("softmax of several axes is not supported")
    return quantised(e, e.op("Softmax", real(e, x, x_scale, x_zero), axis=axis), scale, zero)


@expands("com.microsoft::QLinearConcat")
def concatenation(
    e: Expander, scale: ir.Value, zero: ir.Value, *rest: ir.Value, axis: int
) -> ir.Value:
    """Tensors, each with its scale and zero point, in those of the result."""
    thirds = zip(rest[::3], rest[1::3], rest[2::3], strict=True)
    parts = [real(e, x, x_scale, x_zero) for x, x_scale, x_zero in thirds]
    return quantised(e, e.op("Concat", *parts, axis=axis), scale, zero)


@expands("com.microsoft::QLinearWhere")
def choice(
    e: Expander,
    condition: ir.Value,
    a: ir.Value,
    a_scale: ir.Value,
    a_zero: ir.Value,
    b: ir.Value,
    b_scale: ir.Value,
    b_zero: ir.Value,
    scale: ir.Value,
    zero: ir.Value,
) -> ir.Value:
    """The one or the other element."""
    found = e.op("Where", condition, real(e, a, a_scale, a_zero), real(e, b, b_scale, b_zero))
    return quantised(e, found, scale, zero)
