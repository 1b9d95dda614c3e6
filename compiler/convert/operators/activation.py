"""Activations: functions of single elements between layers, and softmax."""

from __future__ import annotations

import numpy as np

from ..mindir.values import MindirValue
from .node_conversion import NodeConversion
from .registry import converts


@converts("Relu", primitive="ReLU")
@converts("Sigmoid", primitive="Sigmoid")
@converts("Softplus", primitive="Softplus")
@converts("Softsign", primitive="Softsign")
@converts("Mish", primitive="Mish")
@converts("Tanh", primitive="Tanh")
@converts("HardSwish", primitive="HSwish")
def activation(c: NodeConversion, x: MindirValue, *, primitive: str) -> MindirValue:
    """Without parameters."""
    return c.apply(primitive, x)


@converts("Gelu")
@converts("com.microsoft::Gelu")
def gelu(c: NodeConversion, x: MindirValue, *, approximate: str = "none") -> MindirValue:
    """x / 2 (1 + erf(x / sqrt 2)), or its form by tanh."""
    if approximate == "tanh":
        return c.apply("GeLU", x)
    half, root, one = (np.asarray(each, x.dtype) for each in (0.5, np.sqrt(2.0), 1.0))
    erf = c.apply("Erf", c.apply("Div", x, root))
    return c.apply("Mul", c.apply("Mul", x, c.apply("Add", erf, one)), half)


@converts("Softmax", primitive="Softmax")
@converts("LogSoftmax", primitive="LogSoftmax")
def softmax(c: NodeConversion, x: MindirValue, *, axis: int = -1, primitive: str) -> MindirValue:
    """Along one axis."""
    place = (axis,) if primitive == "Softmax" else axis
    return c.apply(primitive, x, place)


@converts("LeakyRelu")
def leaky_relu(c: NodeConversion, x: MindirValue, *, alpha: float = 0.01) -> MindirValue:
    """alpha x where x is negative. MindSpore's LeakyReLUExt has no kernel for CPUs."""
    zero, slope = (np.asarray(each, x.dtype) for each in (0, alpha))
    negative = c.apply("Mul", c.apply("Minimum", x, zero), slope)
    return c.apply("Add", c.apply("Maximum", x, zero), negative)


@converts("Elu")
def elu(c: NodeConversion, x: MindirValue, *, alpha: float = 1.0) -> MindirValue:
    """alpha (exp x - 1) where x is negative. MindSpore's EluExt has no kernel for CPUs."""
    zero, one, scale = (np.asarray(each, x.dtype) for each in (0, 1, alpha))
    power = c.apply("Exp", c.apply("Minimum", x, zero))
    negative = c.apply("Mul", c.apply("Sub", power, one), scale)
    return c.apply("Add", c.apply("Maximum", x, zero), negative)


@converts("Clip")
def clip(
    c: NodeConversion,
    x: MindirValue,
    least: MindirValue | None = None,
    most: MindirValue | None = None,
) -> MindirValue:
    """Within two bounds, either of which may be missing."""
    found = x if least is None else c.apply("Maximum", x, least)
    return found if most is None else c.apply("Minimum", found, most)


@converts("HardSigmoid")
def hard_sigmoid(
    c: NodeConversion, x: MindirValue, *, alpha: float = 0.2, beta: float = 0.5
) -> MindirValue:
    """alpha x + beta, between 0 and 1."""
    slope, offset, zero, one = (np.asarray(each, x.dtype) for each in (alpha, beta, 0, 1))
    line = c.apply("Add", c.apply("Mul", x, slope), offset)
    return c.apply("Minimum", c.apply("Maximum", line, zero), one)


@converts("Selu")
def selu(
    c: NodeConversion, x: MindirValue, *, alpha: float = 1.6732632, gamma: float = 1.0507009
) -> MindirValue:
    """gamma times elu of alpha."""
    return c.apply("Mul", elu(c, x, alpha=alpha), np.asarray(gamma, x.dtype))


@converts("PRelu")
def prelu(c: NodeConversion, x: MindirValue, slope: MindirValue) -> MindirValue:
    """slope x where x is negative."""
    zero = np.asarray(0, x.dtype)
    negative = c.apply("Mul", c.apply("Minimum", x, zero), slope)
    return c.apply("Add", c.apply("Maximum", x, zero), negative)
