"""Fused activations of onnxruntime: those that its optimizer makes, most with a bias."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, TypeAlias

import torch
from torch.nn import functional

from ..operator_node import TorchNode
from ..registry import Compute, computes

Activation: TypeAlias = Callable[[torch.Tensor], torch.Tensor]


def named_activation(name: str, numbers: Sequence[float]) -> Activation:
    """The activation at the end of a fused convolution or product; "" for none.

    `numbers` are its attributes in ONNX's order: alpha and beta, or the ends of a Clip.
    """
    first, second = (*numbers, 0.0, 0.0)[:2]
    known: dict[str, Activation] = {
        "": lambda x: x,
        "Clip": lambda x: torch.clamp(x, first, second),
        "HardSigmoid": lambda x: torch.clamp(first * x + second, 0, 1),
        "LeakyRelu": partial(functional.leaky_relu, negative_slope=first if numbers else 0.01),
        "Relu": torch.relu,
        "Sigmoid": torch.sigmoid,
        "Tanh": torch.tanh,
    }
    if name not in known:
        raise ValueError(f"activation {name}, expected one of {', '.join(sorted(known)[1:])}")
    return known[name]


@computes("com.microsoft::Gelu")
def gelu(node: TorchNode) -> Compute:
    """Gaussian error linear unit."""
    return functional.gelu


@computes("com.microsoft::BiasGelu")
def bias_gelu(node: TorchNode) -> Compute:
    """Gelu of a sum."""
    return lambda x, bias: functional.gelu(x + bias)


@computes("com.microsoft::FastGelu")
def fast_gelu(node: TorchNode) -> Compute:
    """Gelu by tanh, of a sum where there is a bias."""

    def run(x: torch.Tensor, bias: Any = None) -> torch.Tensor:
        return functional.gelu(x if bias is None else x + bias, approximate="tanh")

    return run


@computes("com.microsoft::QuickGelu")
def quick_gelu(node: TorchNode) -> Compute:
    """x * sigmoid(alpha * x)."""
    alpha = node.real("alpha", 1.702)
    return lambda x: x * torch.sigmoid(alpha * x)


@computes("com.microsoft::BiasSplitGelu")
def bias_split_gelu(node: TorchNode) -> Compute:
    """One half of a sum by the Gelu of the other."""

    def run(x: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
        left, right = (x + bias).chunk(2, -1)
        return left * functional.gelu(right)

    return run


@computes("com.microsoft::BiasAdd")
def bias_add(node: TorchNode) -> Compute:
    """The sum of a tensor, a bias and a skipped tensor."""
    return lambda x, bias, skip: x + bias + skip


@computes("com.microsoft::BiasSoftmax")
def bias_softmax(node: TorchNode) -> Compute:
    """Softmax of a sum, over all axes from one on as one."""
    axis = node.integer("axis", 1)

    def run(x: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
        start = axis % x.dim()
        return torch.softmax((x + bias).flatten(start), start).reshape(x.shape)

    return run
