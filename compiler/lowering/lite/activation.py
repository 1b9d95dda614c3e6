"""Activations of .ms files: a primitive of its own, and the end of many others.

The functions are MindIR's primitives of the same names, and ONNX's operators.
"""

from __future__ import annotations

from collections.abc import Callable

from ..builder import Builder, OnnxTensor, Value, lowering_of, lowers, where
from .layout import elementwise

_NONE = ("NO_ACTIVATION", "LINEAR")
_MINDIR = {
    "RELU": "ReLU",
    "SIGMOID": "Sigmoid",
    "RELU6": "ReLU6",
    "ABS": "Abs",
    "SOFTSIGN": "Softsign",
    "SOFTPLUS": "Softplus",
    "TANH": "Tanh",
    "SELU": "SeLU",
    "HSWISH": "HSwish",
    "HSIGMOID": "HSigmoid",
    "SIGN": "Sign",
    "SWISH": "SiLU",
    "FAST_GELU": "FastGeLU",
}
"""Activations without parameters, each with the primitive of MindIR that it is."""


@lowers("Lite.Activation")
def activation(
    b: Builder,
    x: Value,
    *,
    activation_type: str,
    alpha: float,
    min_val: float,
    max_val: float,
    approximate: bool,
) -> Value:
    """A function of each element."""
    tensor = b.tensor(x)
    parameters = {
        "ELU": lambda y: b.op("Elu", y, alpha=alpha),
        "LEAKY_RELU": lambda y: b.op("LeakyRelu", y, alpha=alpha),
        "RELU1": lambda y: b.op("Clip", y, 0.0, 1.0),
        "THRESHOLDRELU": lambda y: b.op("ThresholdedRelu", y, alpha=alpha),
        "HARD_TANH": lambda y: b.op("Clip", y, min_val, max_val),
        "GELU": lambda y: b.op("Gelu", y, approximate="tanh" if approximate else "none"),
    }
    if activation_type in parameters:
        return elementwise(b, tensor, parameters[activation_type])
    return activated(b, tensor, activation_type)


def activated(b: Builder, x: OnnxTensor, kind: str) -> OnnxTensor:
    """The activation at the end of another primitive, which has no parameters of its own."""
    if kind in _NONE:
        return x
    if kind in ("ELU", "RELU1", "GELU"):
        defaults: dict[str, Callable[[OnnxTensor], OnnxTensor]] = {
            "ELU": lambda y: b.op("Elu", y, alpha=1.0),
            "RELU1": lambda y: b.op("Clip", y, 0.0, 1.0),
            "GELU": lambda y: b.op("Gelu", y, approximate="none"),
        }
        return elementwise(b, x, defaults[kind])
    if kind not in _MINDIR:
        raise ValueError(f"the activation {kind} is not supported")
    return elementwise(b, x, lambda y: b.tensor(lowering_of(_MINDIR[kind]).lower(b, [y])))


@lowers("Lite.Elu")
def elu(b: Builder, x: Value, *, alpha: float) -> Value:
    """ONNX's Elu."""
    return elementwise(b, b.tensor(x), lambda y: b.op("Elu", y, alpha=alpha))


@lowers("Lite.LeakyRelu")
def leaky_relu(b: Builder, x: Value, *, negative_slope: float) -> Value:
    """ONNX's LeakyRelu."""
    return elementwise(b, b.tensor(x), lambda y: b.op("LeakyRelu", y, alpha=negative_slope))


@lowers("Lite.PReLUFusion")
def prelu(b: Builder, x: Value, slope: Value, *, channel_shared: bool) -> Value:
    """x, its negative elements times the slope of their channel, the last axis, or of all."""
    tensor, weight = b.tensor(x), b.tensor(slope)
    return where(
        b,
        b.op("GreaterOrEqual", tensor, 0),
        tensor,
        b.op("Mul", tensor, b.op("Reshape", weight, (-1,))),
        tensor.dtype,
    )


@lowers("Lite.Clip")
def clip(
    b: Builder, x: Value, low: Value = None, high: Value = None, *, max: float, min: float
) -> Value:
    """x held between two bounds: inputs, else attributes."""
    tensor = b.tensor(x)
    given = [one for one in (low, high) if one is not None]
    bounds = [b.op("Reshape", b.cast(one, tensor.dtype), ()) for one in given]
    found = bounds or [b.tensor(min, tensor.dtype), b.tensor(max, tensor.dtype)]
    return elementwise(b, tensor, lambda y: b.op("Clip", y, *found))
