"""Fused normalisation of onnxruntime: of sums, of embeddings, and with its channels last."""

from __future__ import annotations

from typing import Any

import torch
from torch.nn import functional

from ..operator_node import TorchNode
from ..registry import Compute, computes


def _wide(x: torch.Tensor) -> torch.Tensor:
    return x if x.dtype == torch.float64 else x.to(torch.float32)


def _root_mean_square(
    x: torch.Tensor, scale: torch.Tensor, axes: tuple[int, ...], epsilon: float
) -> tuple[torch.Tensor, torch.Tensor]:
    """x with a mean square of 1, scaled, and the factor."""
    wide = _wide(x)
    inverse = torch.rsqrt((wide * wide).mean(axes, keepdim=True) + epsilon)
    return (wide * inverse * _wide(scale)).to(scale.dtype), inverse


@computes("SimplifiedLayerNormalization")
def simplified_layer_normalization(node: TorchNode) -> Compute:
    """Unit root mean square over the axes from one on, and its factor."""
    axis, epsilon = node.integer("axis", -1), node.real("epsilon", 1e-5)

    def run(x: torch.Tensor, scale: torch.Tensor) -> Any:
        axes = tuple(range(axis % x.dim(), x.dim()))
        return _root_mean_square(x, scale, axes, epsilon)

    return run


def _sum(x: torch.Tensor, skip: torch.Tensor, bias: Any) -> torch.Tensor:
    total = x + skip
    return total if bias is None else total + bias


@computes("com.microsoft::SkipLayerNormalization")
def skip_layer_normalization(node: TorchNode) -> Compute:
    """Layer normalisation of a sum; the mean, the factor and the sum too."""
    epsilon = node.real("epsilon", 1e-12)

    def run(x: torch.Tensor, skip: Any, scale: Any, shift: Any = None, bias: Any = None) -> Any:
        total = _sum(x, skip, bias)
        made = functional.layer_norm(total, total.shape[-1:], scale, shift, epsilon)
        if not (node.gives(1) or node.gives(2)):
            return made, None, None, total
        wide = _wide(total)
        spread = wide.var(-1, unbiased=False, keepdim=True)
        return made, wide.mean(-1, keepdim=True), torch.rsqrt(spread + epsilon), total

    return run


@computes("com.microsoft::SkipSimplifiedLayerNormalization")
def skip_simplified_layer_normalization(node: TorchNode) -> Compute:
    """A sum with a root mean square of 1; the factor and the sum too."""
    epsilon = node.real("epsilon", 1e-12)

    def run(x: torch.Tensor, skip: Any, scale: Any, bias: Any = None) -> Any:
        total = _sum(x, skip, bias)
        made, inverse = _root_mean_square(total, scale, (-1,), epsilon)
        return made, None, inverse, total

    return run


@computes("com.microsoft::EmbedLayerNormalization")
def embed_layer_normalization(node: TorchNode) -> Compute:
    """Layer normalisation of the sum of embeddings of words, positions and segments.

    Its second output has how many words of each sequence the mask keeps.
    """
    epsilon = node.real("epsilon", 1e-12)

    def run(words: torch.Tensor, segments: Any, of_word: Any, of_position: Any, of_segment: Any,
            scale: Any, shift: Any, mask: Any = None, positions: Any = None) -> Any:  # fmt: skip
        if positions is None:
            positions = torch.arange(words.shape[1], device=words.device)
        total = functional.embedding(words, of_word) + functional.embedding(positions, of_position)
        if segments is not None:
            total = total + functional.embedding(segments, of_segment)
        kept = words.new_zeros(words.shape[0]) if mask is None else (mask == 1).sum(1)
        made = functional.layer_norm(total, total.shape[-1:], scale, shift, epsilon)
        return made, kept.to(torch.int32), total

    return run


@computes("com.microsoft::GroupNorm")
def group_norm(node: TorchNode) -> Compute:
    """Normalisation of groups of channels, which come last by default; Swish after it by option."""
    groups, epsilon = node.integer("groups", 1), node.real("epsilon", 1e-5)
    last, swish = bool(node.integer("channels_last", 1)), node.integer("activation")

    def run(x: torch.Tensor, scale: torch.Tensor, shift: torch.Tensor) -> torch.Tensor:
        moved = x.movedim(-1, 1) if last else x
        made = functional.group_norm(_wide(moved), groups, _wide(scale), _wide(shift), epsilon)
        made = (functional.silu(made) if swish else made).to(x.dtype)
        return made.movedim(1, -1) if last else made

    return run


@computes("com.microsoft::SkipGroupNorm")
def skip_group_norm(node: TorchNode) -> Compute:
    """GroupNorm of a sum, and the sum; what is added may lack the axes of the image."""
    normalised, last = group_norm(node), bool(node.integer("channels_last", 1))

    def run(x: torch.Tensor, scale: Any, shift: Any, skip: Any, bias: Any = None) -> Any:
        shape = (1, 1, 1, -1) if last else (1, -1, 1, 1)
        if skip.dim() == 2:
            skip = skip[:, None, None] if last else skip[..., None, None]
        total = _sum(x, skip, None if bias is None else bias.reshape(shape))
        return normalised(total, scale, shift), total

    return run
