"""Root mean square: RMSNorm that a graph spells out, by torch's kernel."""

from __future__ import annotations

from typing import Any

import torch
from torch.nn import functional

from ..operator_node import TorchNode
from ..patterns.norm_pattern import DOMAIN, OPERATOR
from ..registry import Compute, computes
from ..tensors import torch_dtype


@computes(f"{DOMAIN}::{OPERATOR}")
def root_mean_square_norm(node: TorchNode) -> Compute:
    """x / sqrt(mean(x * x) + epsilon) * scale, in float32 or wider; the casts are attributes."""
    axes, epsilon = node.integers("axes") or [-1], node.real("epsilon")
    wide, narrow = (_dtype(node, name) for name in ("wide", "narrow"))

    def run(x: torch.Tensor, scale: Any = None) -> torch.Tensor:
        made = x if wide is None or narrow == x.dtype else x.to(wide)
        shape = _last(x, axes)
        if not shape:
            made = _stepwise(made, axes, epsilon)
        elif (
            scale is not None
            and scale.shape == shape
            and scale.dtype == made.dtype
            and (narrow in (None, made.dtype))
        ):
            return functional.rms_norm(made, shape, scale, epsilon)
        else:
            made = functional.rms_norm(made, shape, None, epsilon)
        made = made if narrow is None else made.to(narrow)
        return made if scale is None else made * scale

    return run


def _dtype(node: TorchNode, name: str) -> torch.dtype | None:
    kind = node.integer(name)
    return torch_dtype(kind) if kind else None


def _last(x: torch.Tensor, axes: list[int]) -> torch.Size | None:
    """The shape of the axes, where they are the last ones."""
    start = x.dim() - len(axes)
    if sorted(axis % max(x.dim(), 1) for axis in axes) != list(range(start, x.dim())):
        return None
    return x.shape[start:]


def _stepwise(x: torch.Tensor, axes: list[int], epsilon: float) -> torch.Tensor:
    wide = x if x.dtype == torch.float64 else x.to(torch.float32)
    inverse = torch.rsqrt((wide * wide).mean(axes, keepdim=True) + epsilon)
    return (wide * inverse).to(x.dtype)
