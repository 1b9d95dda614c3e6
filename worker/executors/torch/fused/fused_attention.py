"""Fused attention of onnxruntime: Attention and MultiHeadAttention with masks and caches."""

from __future__ import annotations

from math import sqrt
from typing import Any

import torch
from torch.nn import functional

from ..operator_node import TorchNode
from ..operators.attention import by_head
from ..registry import Compute, computes


class HeadMasks:
    """The scale and the masks of a node; its heads are as many for keys as for queries."""

    def __init__(self, node: TorchNode) -> None:
        self.heads = node.integer("num_heads")
        self._filler = node.real("mask_filter_value", -10000.0)
        self._scale = node.real("scale")
        self._causal = bool(node.integer("unidirectional"))

    def attended(
        self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, mask: Any, bias: Any
    ) -> torch.Tensor:
        """[batch, rows, features] for queries, keys and values of each head."""
        rows, columns = q.shape[2], k.shape[2]
        for one in (self._of_mask(mask, q, columns), self._of_order(q, columns)):
            if one is not None:
                bias = one if bias is None else bias + one
        scale = self._scale or 1 / sqrt(q.shape[-1])
        shape = None if bias is None else bias.expand(-1, -1, rows, columns)
        made = functional.scaled_dot_product_attention(q, k, v, shape, scale=scale)
        return made.transpose(1, 2).flatten(2)

    def _of_mask(self, mask: Any, q: torch.Tensor, columns: int) -> Any:
        """The bias of a mask: of columns, of each row, or of the ends and starts of sequences."""
        if mask is None:
            return None
        if mask.dim() == 4:  # a square, of which the last rows are those of the queries
            past = columns - q.shape[2]
            seen = mask[:, :, past:columns, :columns] > 0
        elif mask.dim() == 1:
            batch, places = q.shape[0], torch.arange(columns, device=mask.device)
            seen = places < mask[:batch, None]
            if mask.numel() == 2 * batch:
                seen = seen & (places >= mask[batch:, None])
            seen = seen[:, None, None]
        else:
            seen = (mask > 0)[:, None] if mask.dim() == 3 else (mask > 0)[:, None, None]
        return torch.zeros_like(seen, dtype=q.dtype).masked_fill(~seen, self._filler)

    def _of_order(self, q: torch.Tensor, columns: int) -> Any:
        if not self._causal:
            return None
        rows = q.shape[2]
        later = torch.ones(rows, columns, dtype=torch.bool, device=q.device)
        later = later.triu(columns - rows + 1)
        hidden = torch.zeros(1, 1, rows, columns, dtype=q.dtype, device=q.device)
        return hidden.masked_fill(later, float("-inf"))


@computes("com.microsoft::Attention")
def attention(node: TorchNode) -> Compute:
    """Self-attention with its products with weights; the keys and values as one tensor too."""
    masks, stated = HeadMasks(node), node.integers("qkv_hidden_sizes")
    for name in ("do_rotary", "past_present_share_buffer"):
        if node.integer(name):
            raise ValueError(f"{name} is 1, expected 0")

    def run(x: torch.Tensor, w: torch.Tensor, b: Any = None, mask: Any = None, past: Any = None,
            bias: Any = None) -> Any:  # fmt: skip
        joined = torch.matmul(x, w) if b is None else torch.matmul(x, w) + b
        parts = joined.split(stated or w.shape[1] // 3, -1)
        q, k, v = (by_head(part, masks.heads) for part in parts)
        if past is not None:
            k, v = torch.cat((past[0], k), 2), torch.cat((past[1], v), 2)
        present = torch.stack((k, v)) if node.gives(1) else None
        return masks.attended(q, k, v, mask, bias), present

    return run


@computes("com.microsoft::MultiHeadAttention")
def multi_head_attention(node: TorchNode) -> Compute:
    """Attention of queries, keys and values, which may be packed; the cache with the new ones."""
    masks = HeadMasks(node)
    if node.gives(3) or any(node.inputs[8:]):
        raise ValueError("past_sequence_length, cache_indirection or qk, expected none of these")

    def run(query: torch.Tensor, key: Any = None, value: Any = None, b: Any = None,
            mask: Any = None, bias: Any = None, past_k: Any = None,
            past_v: Any = None) -> Any:  # fmt: skip
        q, k, v = _parts(query, key, value, b, masks.heads)
        if past_k is not None:
            k, v = torch.cat((past_k, k), 2), torch.cat((past_v, v), 2)
        return masks.attended(q, k, v, mask, bias), k, v

    return run


def _parts(query: torch.Tensor, key: Any, value: Any, bias: Any, heads: int) -> list[torch.Tensor]:
    """Queries, keys and values, each [batch, heads, length, features of a head]."""
    if value is not None and value.dim() == 4:  # of a cache, by head, with their biases
        query = query if bias is None else query + bias[: query.shape[-1]]
        return [by_head(query, heads), key, value]
    if key is None:
        parts = list(query.unbind(3))
    elif value is None:
        parts = [query, *key.unbind(3)]
    else:
        parts = [query, key, value]
    rows = [part.flatten(2) for part in parts]
    if bias is not None:
        biases = bias.split([row.shape[-1] for row in rows])
        rows = [row + one for row, one in zip(rows, biases, strict=True)]
    return [by_head(row, heads) for row in rows]
