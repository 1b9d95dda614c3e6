"""Activations: functions of one tensor between layers, softmax among them."""

from __future__ import annotations

from functools import partial

import torch
from torch.nn import functional

from ..operator_node import TorchNode
from ..registry import Compute, computes, computes_each

computes_each(
    {
        "HardSwish": functional.hardswish,
        "Mish": functional.mish,
        "Relu": torch.relu,
        "Sigmoid": torch.sigmoid,
        "Softplus": functional.softplus,
        "Softsign": functional.softsign,
    }
)


@computes("LeakyRelu")
def leaky_relu(node: TorchNode) -> Compute:
    """Negative numbers times alpha."""
    return partial(functional.leaky_relu, negative_slope=node.real("alpha", 0.01))


@computes("PRelu")
def prelu(node: TorchNode) -> Compute:
    """Negative numbers times a slope, which is broadcast."""
    return lambda x, slope: torch.where(x < 0, x * slope, x) if x.dtype.is_signed else x


@computes("Elu")
def elu(node: TorchNode) -> Compute:
    """alpha * (exp(x) - 1) below zero."""
    return partial(functional.elu, alpha=node.real("alpha", 1.0))


@computes("Celu")
def celu(node: TorchNode) -> Compute:
    """alpha * (exp(x / alpha) - 1) below zero."""
    return partial(functional.celu, alpha=node.real("alpha", 1.0))


@computes("Selu")
def selu(node: TorchNode) -> Compute:
    """gamma times Elu."""
    alpha, gamma = (
        node.real("alpha", 1.67326319217681884765625),
        node.real("gamma", 1.05070102214813232421875),
    )
    return lambda x: gamma * functional.elu(x, alpha=alpha)


@computes("HardSigmoid")
def hard_sigmoid(node: TorchNode) -> Compute:
    """alpha * x + beta, between 0 and 1."""
    alpha, beta = node.real("alpha", 0.2), node.real("beta", 0.5)
    return lambda x: torch.clamp(alpha * x + beta, 0, 1)


@computes("ThresholdedRelu")
def thresholded_relu(node: TorchNode) -> Compute:
    """Numbers above alpha; zero for others."""
    alpha = node.real("alpha", 1.0)
    return lambda x: torch.where(x > alpha, x, torch.zeros_like(x))


@computes("Shrink")
def shrink(node: TorchNode) -> Compute:
    """Numbers moved by bias towards zero; zero within lambd."""
    lambd, bias = node.real("lambd", 0.5), node.real("bias", 0.0)

    def run(x: torch.Tensor) -> torch.Tensor:
        zero = torch.zeros_like(x)
        moved = torch.where(x > lambd, (x - bias).to(x.dtype), zero)
        return torch.where(x < -lambd, (x + bias).to(x.dtype), moved)

    return run


@computes("Gelu")
def gelu(node: TorchNode) -> Compute:
    """Gaussian error linear unit, exact or by tanh."""
    return partial(functional.gelu, approximate=node.text("approximate", "none"))


@computes("Swish")
def swish(node: TorchNode) -> Compute:
    """x * sigmoid(alpha * x)."""
    alpha = node.real("alpha", 1.0)
    return functional.silu if alpha == 1 else lambda x: x * torch.sigmoid(alpha * x)


def _over_axis(node: TorchNode, function: Compute) -> Compute:
    """A function over an axis; before opset 13 over all axes from one on, as one."""
    if node.opset >= 13:
        return partial(function, dim=node.integer("axis", -1))
    axis = node.integer("axis", 1)

    def flat(x: torch.Tensor) -> torch.Tensor:
        start = axis % max(x.dim(), 1)
        return function(x.flatten(start), dim=start).reshape(x.shape)

    return flat


@computes("Softmax")
def softmax(node: TorchNode) -> Compute:
    """Softmax over an axis."""
    return _over_axis(node, torch.softmax)


@computes("LogSoftmax")
def log_softmax(node: TorchNode) -> Compute:
    """Logarithm of softmax."""
    return _over_axis(node, torch.log_softmax)


@computes("Hardmax")
def hardmax(node: TorchNode) -> Compute:
    """One at the first largest number along an axis, zero elsewhere."""

    def run(x: torch.Tensor, dim: int) -> torch.Tensor:
        largest = torch.argmax(x, dim, keepdim=True)
        return torch.zeros_like(x).scatter(dim, largest, 1.0)

    return _over_axis(node, run)


@computes("Dropout")
def dropout(node: TorchNode) -> Compute:
    """The input itself, as inference drops nothing, and a mask of ones."""

    known = node.constants.get(2)
    off = known is not None and not bool(known)

    def run(x: torch.Tensor, ratio: object = None, training: torch.Tensor | None = None) -> object:
        if training is not None and not off and bool(training):
            raise ValueError("training_mode is on, and only inference is supported")
        return x, torch.ones_like(x, dtype=torch.bool) if node.gives(1) else None

    return run


@computes("SwiGLU")
def swiglu(node: TorchNode) -> Compute:
    """Swish of a gate times a value."""
    gate = swish(node)
    return lambda x, value: gate(x) * value
