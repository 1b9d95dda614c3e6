"""Attention: scaled dot products with caches and masks, and rotary embeddings."""

from __future__ import annotations

from math import sqrt
from typing import Any

import torch
from torch.nn import functional

from ..operator_node import TorchNode
from ..registry import Compute, computes
from ..tensors import torch_dtype


@computes("Attention")
def attention(node: TorchNode) -> Compute:
    """Attention of opset 23 on: grouped heads, caches, causal and sliding masks, softcap."""
    return Attention(node)


class Attention:
    """The attributes of a node Attention, and its computation."""

    def __init__(self, node: TorchNode) -> None:
        self._heads = node.integer("q_num_heads"), node.integer("kv_num_heads")
        self._causal = bool(node.integer("is_causal"))
        self._softcap = node.real("softcap")
        self._scale = node.real("scale") if node.has("scale") else None
        self._left = node.integer("left_window_size", -1)
        self._right = node.integer("right_window_size", -1)
        self._products = node.integer("qk_matmul_output_mode") if node.gives(3) else None
        precision = node.integer("softmax_precision")
        self._precision = torch_dtype(precision) if precision else None

    def __call__(
        self,
        q: torch.Tensor,
        k: torch.Tensor,
        v: torch.Tensor,
        mask: Any = None,
        past_k: Any = None,
        past_v: Any = None,
        lengths: Any = None,
    ) -> tuple[Any, ...]:
        """The attention, the keys and values with those of the cache, and the products."""
        flat = q.dim() == 3
        if flat:
            q, k, v = (by_head(x, h) for x, h in zip((q, k, v), self._counts, strict=True))
        past = 0 if past_k is None else past_k.shape[2]
        k = k if past_k is None else torch.cat((past_k, k), 2)
        v = v if past_v is None else torch.cat((past_v, v), 2)
        bias = self._bias(q, k, mask, past, lengths)
        groups = q.shape[1] // k.shape[1]
        keys, values = (x.repeat_interleave(groups, 1) if groups > 1 else x for x in (k, v))
        made, products = self._attended(q, keys, values, bias)
        return made.transpose(1, 2).flatten(2) if flat else made, k, v, products

    @property
    def _counts(self) -> tuple[int, int, int]:
        return (self._heads[0], self._heads[1], self._heads[1])

    def _attended(
        self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, bias: Any
    ) -> tuple[torch.Tensor, Any]:
        scale = self._scale if self._scale is not None else 1 / sqrt(q.shape[-1])
        if self._products is None and not self._softcap:
            made = functional.scaled_dot_product_attention(q, k, v, bias, scale=scale)
            return made, None
        each = torch.full((), sqrt(scale), dtype=q.dtype, device=q.device)
        scores = (q * each) @ (k * each).transpose(-1, -2)
        capped = torch.tanh(scores / self._softcap) * self._softcap if self._softcap else scores
        biased = capped if bias is None else capped + bias
        wide = biased if self._precision is None else biased.to(self._precision)
        weights = torch.softmax(wide, -1).to(q.dtype)
        if bias is not None:
            hidden = torch.isneginf(bias.amax(-1, keepdim=True))
            weights = torch.where(hidden, torch.zeros_like(weights), weights)
        shown = (scores, capped, biased, weights)[self._products or 0]
        return weights @ v, shown

    def _bias(
        self, q: torch.Tensor, k: torch.Tensor, mask: Any, past: int, lengths: Any
    ) -> torch.Tensor | None:
        """The numbers to add to the products: 0, those of the mask, or minus infinity."""
        rows, columns = q.shape[2], k.shape[2]
        bias = None if mask is None else _additive(mask, columns, q.dtype)
        allowed = self._allowed(rows, columns, past, lengths, q.device)
        if lengths is not None:
            kept = torch.arange(columns, device=q.device) < lengths.reshape(-1, 1, 1, 1)
            allowed = kept if allowed is None else allowed & kept
        if allowed is None:
            return bias
        hidden = torch.zeros((), dtype=q.dtype, device=q.device)
        hidden = hidden.expand(allowed.shape).masked_fill(~allowed, float("-inf"))
        return hidden if bias is None else bias + hidden

    def _allowed(
        self, rows: int, columns: int, past: int, lengths: Any, device: torch.device
    ) -> torch.Tensor | None:
        """Where the causal and sliding masks let a row see a column; None for everywhere."""
        if not self._causal and self._left < 0 and self._right < 0:
            return None
        first: Any = past if lengths is None or past else (lengths - rows).reshape(-1, 1, 1, 1)
        row = torch.arange(rows, device=device)[:, None] + first
        distance = row - torch.arange(columns, device=device)
        allowed = torch.ones_like(distance, dtype=torch.bool)
        if self._causal:
            allowed &= distance >= 0
        if self._left >= 0:
            allowed &= distance <= self._left
        if self._right >= 0:
            allowed &= -distance <= self._right
        return allowed


def by_head(x: torch.Tensor, heads: int) -> torch.Tensor:
    """[batch, length, features] as [batch, heads, length, features of a head]."""
    return x.reshape(x.shape[0], x.shape[1], heads, -1).transpose(1, 2)


def _additive(mask: torch.Tensor, columns: int, dtype: torch.dtype) -> torch.Tensor:
    """A mask as numbers to add, as wide as there are columns."""
    if mask.dtype == torch.bool:
        zero = torch.zeros((), dtype=dtype, device=mask.device)
        mask = zero.expand(mask.shape).masked_fill(~mask, float("-inf"))
    missing = columns - mask.shape[-1]
    mask = functional.pad(mask, (0, missing), value=float("-inf")) if missing > 0 else mask
    return mask.expand(*mask.shape[:-2], -1, -1) if mask.dim() > 1 else mask


@computes("RotaryEmbedding")
def rotary_embedding(node: TorchNode) -> Compute:
    """Pairs of features, turned by angles of their position."""
    interleaved, heads = bool(node.integer("interleaved")), node.integer("num_heads")
    stated = node.integer("rotary_embedding_dim")

    def run(x: torch.Tensor, cos: Any, sin: Any, positions: Any = None) -> torch.Tensor:
        shape = x.shape
        rows = x.transpose(1, 2) if x.dim() == 4 else x.reshape(*shape[:2], heads, -1)
        width = stated or rows.shape[-1]
        if positions is not None:
            cos, sin = cos[positions], sin[positions]
        cos, sin = cos.unsqueeze(2), sin.unsqueeze(2)
        made = rotated(rows, cos, sin, width, interleaved)
        return made.transpose(1, 2) if x.dim() == 4 else made.reshape(shape)

    return run


def rotated(
    rows: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor, width: int, interleaved: bool
) -> torch.Tensor:
    """The first `width` features turned in pairs: neighbours, or those half of them apart."""
    turned, rest = rows[..., :width], rows[..., width:]
    if interleaved:
        one, two = turned[..., 0::2], turned[..., 1::2]
    else:
        one, two = turned.chunk(2, -1)
    parts = (cos * one - sin * two, sin * one + cos * two)
    joined = torch.stack(parts, -1).flatten(-2) if interleaved else torch.cat(parts, -1)
    return torch.cat((joined, rest), -1)


@computes("LinearAttention")
def linear_attention(node: TorchNode) -> Compute:
    """Attention by a state that each step decays, corrects and adds to."""
    heads, kv_heads = node.integer("q_num_heads"), node.integer("kv_num_heads")
    rule = node.text("update_rule", "gated_delta")
    if rule not in ("linear", "gated", "delta", "gated_delta"):
        raise ValueError(f"update_rule {rule}, expected linear, gated, delta or gated_delta")

    def run(
        q: torch.Tensor, k: Any, v: Any, past: Any = None, decay: Any = None, beta: Any = None
    ) -> tuple[torch.Tensor, torch.Tensor]:
        dtype, state_dtype = q.dtype, q.dtype if past is None else past.dtype
        counts = (heads, kv_heads, kv_heads)
        q, k, v = (by_head(x, h).float() for x, h in zip((q, k, v), counts, strict=True))
        scale = node.real("scale") or 1 / sqrt(q.shape[-1])
        shape = (q.shape[0], kv_heads, k.shape[-1], v.shape[-1])
        state = torch.zeros(shape, device=q.device) if past is None else past.float()
        decay = None if decay is None else by_head(decay, kv_heads).float().exp().unsqueeze(-1)
        beta = None if beta is None else beta.float().transpose(1, 2)[..., None, None]
        rows = []
        for at in range(q.shape[2]):
            key, value = k[:, :, at, :, None], v[:, :, at, None, :]
            state = state if decay is None else state * decay[:, :, at]
            if beta is not None:
                value = beta[:, :, at] * (value - (state * key).sum(2, keepdim=True))
            state = state + key * value
            read = state.repeat_interleave(heads // kv_heads, 1)
            rows.append(scale * (q[:, :, at, :, None] * read).sum(2))
        made = torch.stack(rows, 1).flatten(2)
        return made.to(dtype), state.to(state_dtype)

    return run
