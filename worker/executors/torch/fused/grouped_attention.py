"""Grouped attention of onnxruntime: GroupQueryAttention, its cache and its rotary embedding."""

from __future__ import annotations

from math import sqrt
from typing import Any

import torch

from ..operator_node import TorchNode
from ..operators.attention import by_head, rotated
from ..registry import Compute, computes, integers


@computes("com.microsoft::RotaryEmbedding")
def rotary_embedding(node: TorchNode) -> Compute:
    """Pairs of features, turned by angles of their position; one position is that of the first."""
    interleaved, heads = bool(node.integer("interleaved")), node.integer("num_heads")
    if node.integer("is_packed_batching"):
        raise ValueError("is_packed_batching is 1, expected 0")

    def run(x: torch.Tensor, positions: torch.Tensor, cos: Any, sin: Any) -> torch.Tensor:
        width = 2 * cos.shape[-1]
        if x.dim() == 4:
            rows = x.transpose(1, 2)
        else:
            rows = x.reshape(*x.shape[:2], heads or x.shape[2] // width, -1)
        if positions.numel() == 1:
            steps = torch.arange(rows.shape[1], device=x.device)
            positions = (positions.reshape(()) + steps).expand(rows.shape[:2])
        cos, sin = (one[positions].unsqueeze(2) for one in (cos, sin))
        made = rotated(rows, cos, sin, width, interleaved)
        return made.transpose(1, 2) if x.dim() == 4 else made.reshape(x.shape)

    return run


@computes("com.microsoft::GroupQueryAttention", sizes=(6,))
def group_query_attention(node: TorchNode) -> Compute:
    """Causal attention whose heads share keys, with a cache of the keys and values before."""
    return GroupQueryAttention(node)


class GroupQueryAttention:
    """The attributes of a node GroupQueryAttention, and its computation.

    The semantics are those of onnxruntime's ContribOperators.md and its kernel for CPUs.
    """

    def __init__(self, node: TorchNode) -> None:
        self._heads, self._kv_heads = node.integer("num_heads"), node.integer("kv_num_heads")
        self._rotary = bool(node.integer("do_rotary"))
        self._interleaved = bool(node.integer("rotary_interleaved"))
        self._window = node.integer("local_window_size", -1)
        self._scale, self._softcap = node.real("scale"), node.real("softcap")
        self._smooth = node.integer("smooth_softmax") == 1
        if node.gives(3):
            raise ValueError("output_qk is wanted, expected three outputs")

    def __call__(
        self,
        query: torch.Tensor,
        key: Any,
        value: Any,
        past_k: Any,
        past_v: Any,
        lengths: torch.Tensor,
        total: Any,
        *more: Any,
    ) -> tuple[torch.Tensor, ...]:
        """The attention [batch, rows, features], and the cache of keys and of values."""
        cos, sin, positions, bias, sink = (*more, *(None,) * 5)[:5]
        q, k, v = self._parts(query, key, value)
        rows, most = q.shape[2], integers(total)[0]
        ends = lengths.reshape(-1, 1).to(torch.int64) + 1
        first = torch.zeros_like(ends) if rows == most else ends - rows
        places = first + torch.arange(rows, device=q.device)
        if self._rotary:
            at = places if positions is None else positions
            q, k = (self._turned(x, cos, sin, at) for x in (q, k))
        keys, values = (_cached(*pair, places, most) for pair in ((past_k, k), (past_v, v)))
        scores = self._scores(q, keys, bias)
        hidden = ~self._seen(places, keys.shape[2])
        weights = self._weights(scores.masked_fill(hidden[:, None], float("-inf")), sink)
        made = weights.to(q.dtype) @ self._spread(values)
        return made.transpose(1, 2).flatten(2), keys, values

    def _parts(self, query: torch.Tensor, key: Any, value: Any) -> tuple[torch.Tensor, ...]:
        """Queries, keys and values by head; all three may lie in `query`."""
        counts = (self._heads, self._kv_heads, self._kv_heads)
        parts = (query, key, value)
        if key is None:
            size = query.shape[-1] // sum(counts)
            parts = query.split([count * size for count in counts], -1)
        return tuple(by_head(x, count) for x, count in zip(parts, counts, strict=True))

    def _turned(
        self, x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor, places: torch.Tensor
    ) -> torch.Tensor:
        cos, sin = (one[places.clamp(min=0)].unsqueeze(1) for one in (cos, sin))
        return rotated(x, cos, sin, 2 * cos.shape[-1], self._interleaved)

    def _spread(self, x: torch.Tensor) -> torch.Tensor:
        return x.repeat_interleave(self._heads // self._kv_heads, 1)

    def _scores(self, q: torch.Tensor, keys: torch.Tensor, bias: Any) -> torch.Tensor:
        scale = self._scale or 1 / sqrt(q.shape[-1])
        scores = (q @ self._spread(keys).transpose(-1, -2)).to(torch.float32) * scale
        if self._softcap:
            scores = torch.tanh(scores / self._softcap) * self._softcap
        return scores if bias is None else scores + bias

    def _seen(self, places: torch.Tensor, columns: int) -> torch.Tensor:
        """Where a row sees a column: not behind itself, nor further before it than the window."""
        distance = places[..., None] - torch.arange(columns, device=places.device)
        seen = distance >= 0
        return seen & (distance < self._window) if self._window > 0 else seen

    def _weights(self, scores: torch.Tensor, sink: Any) -> torch.Tensor:
        """Softmax of the scores, beside one of 0 or of each head that takes part and is dropped."""
        if sink is None and not self._smooth:
            return torch.softmax(scores, -1)
        more = torch.zeros((), device=scores.device) if sink is None else sink.reshape(1, -1, 1, 1)
        joined = torch.cat((scores, more.to(scores.dtype).expand(*scores.shape[:-1], 1)), -1)
        return torch.softmax(joined, -1)[..., :-1]


def _cached(past: Any, new: torch.Tensor, places: torch.Tensor, most: int) -> torch.Tensor:
    """The cache with new rows at their places, as long as the old one or the longest sequence."""
    before = 0 if past is None else past.shape[2]
    made = new.new_zeros(*new.shape[:2], max(before, most), new.shape[3])
    if before:
        made[:, :, :before] = past
    return made.scatter(2, places[:, None, :, None].expand(new.shape), new)
