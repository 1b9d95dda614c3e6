"""Normalisation: over batches, channels, groups and last axes."""

from __future__ import annotations

from typing import Any

import torch
from torch.nn import functional

from ..operator_node import TorchNode
from ..registry import Compute, computes


@computes("BatchNormalization")
def batch_normalization(node: TorchNode) -> Compute:
    """Scale and shift of each channel by statistics of the training."""
    epsilon, momentum = node.real("epsilon", 1e-5), node.real("momentum", 0.9)
    training = bool(node.integer("training_mode"))

    def run(x: torch.Tensor, scale: Any, bias: Any, mean: Any, var: Any) -> Any:
        if not training:
            return functional.batch_norm(x, mean, var, scale, bias, False, 0.0, epsilon)
        axes = [axis for axis in range(x.dim()) if axis != 1]
        now, spread = x.mean(axes), x.var(axes, unbiased=False)
        made = functional.batch_norm(x, now, spread, scale, bias, False, 0.0, epsilon)
        return (
            made,
            mean * momentum + now * (1 - momentum),
            var * momentum + spread * (1 - momentum),
        )

    return run


@computes("LayerNormalization")
def layer_normalization(node: TorchNode) -> Compute:
    """Zero mean and unit variance over the axes from one on; mean and inverse deviation too."""
    axis, epsilon = node.integer("axis", -1), node.real("epsilon", 1e-5)
    plain = not (node.gives(1) or node.gives(2))

    def run(x: torch.Tensor, scale: Any, bias: Any = None) -> Any:
        start = axis % x.dim()
        shaped = scale.shape == x.shape[start:] and (bias is None or bias.shape == scale.shape)
        if plain and shaped and x.dtype == scale.dtype:
            return functional.layer_norm(x, x.shape[start:], scale, bias, epsilon)
        axes = tuple(range(start, x.dim()))
        wide = x.to(torch.float32) if x.dtype != torch.float64 else x
        mean = wide.mean(axes, keepdim=True)
        inverse = torch.rsqrt(wide.var(axes, unbiased=False, keepdim=True) + epsilon)
        made = ((wide - mean) * inverse).to(x.dtype) * scale
        return (
            made
            if bias is None and plain
            else (made if bias is None else made + bias, mean, inverse)
        )

    return run


@computes("RMSNormalization")
def rms_normalization(node: TorchNode) -> Compute:
    """Unit root mean square over the axes from one on."""
    axis, epsilon = node.integer("axis", -1), node.real("epsilon", 1e-5)

    def run(x: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
        axes = tuple(range(axis % x.dim(), x.dim()))
        wide = x.to(torch.float32) if x.dtype != torch.float64 else x
        inverse = torch.rsqrt((wide * wide).mean(axes, keepdim=True) + epsilon)
        return ((wide * inverse).to(x.dtype) * scale).to(scale.dtype)

    return run


@computes("InstanceNormalization")
def instance_normalization(node: TorchNode) -> Compute:
    """Zero mean and unit variance of each channel of each sample."""
    epsilon = node.real("epsilon", 1e-5)
    return lambda x, scale, bias: functional.group_norm(x, x.shape[1], scale, bias, epsilon)


@computes("GroupNormalization")
def group_normalization(node: TorchNode) -> Compute:
    """Zero mean and unit variance of groups of channels; before opset 21 scales are per group."""
    groups, epsilon = node.integer("num_groups", 1), node.real("epsilon", 1e-5)

    def run(x: torch.Tensor, scale: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
        if node.opset < 21 and scale.shape[0] == groups != x.shape[1]:
            each = x.shape[1] // groups
            scale, bias = scale.repeat_interleave(each), bias.repeat_interleave(each)
        return functional.group_norm(x, groups, scale, bias, epsilon)

    return run


@computes("LpNormalization")
def lp_normalization(node: TorchNode) -> Compute:
    """Unit p-norm along an axis; zero where the norm is."""
    axis, p = node.integer("axis", -1), node.integer("p", 2)

    def run(x: torch.Tensor) -> torch.Tensor:
        norm = torch.linalg.vector_norm(x, p, axis, keepdim=True)
        return torch.where(norm == 0, torch.zeros_like(x), x / norm)

    return run


@computes("MeanVarianceNormalization")
def mean_variance_normalization(node: TorchNode) -> Compute:
    """Zero mean and unit variance over some axes."""
    axes = node.integers("axes") or [0, 2, 3]

    def run(x: torch.Tensor) -> torch.Tensor:
        moved = x - x.mean(axes, keepdim=True)
        return moved / (torch.sqrt((moved * moved).mean(axes, keepdim=True)) + 1e-9)

    return run


@computes("LRN")
def local_response_normalization(node: TorchNode) -> Compute:
    """Each element by the squares of the channels beside it."""
    size, alpha = node.integer("size", 1), node.real("alpha", 1e-4)
    beta, bias = node.real("beta", 0.75), node.real("bias", 1.0)

    def run(x: torch.Tensor) -> torch.Tensor:
        before = (size - 1) // 2
        squares = (x * x).movedim(1, -1)
        padded = functional.pad(squares, (before, size - 1 - before))
        total = padded.unfold(-1, size, 1).sum(-1).movedim(-1, 1)
        return x / (bias + alpha / size * total) ** beta

    return run
