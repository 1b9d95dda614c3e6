"""BERT-base and GPT-2 small in torch, as tests/oracle/bench_cells.py has them in MindSpore."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional


def split_heads(x: Tensor, heads: int) -> Tensor:
    """[batch, length, hidden] to [batch, heads, length, hidden / heads]."""
    batch, length, hidden = x.shape
    return x.reshape(batch, length, heads, hidden // heads).transpose(1, 2)


def joined_heads(x: Tensor) -> Tensor:
    """[batch, heads, length, size] to [batch, length, heads * size]."""
    batch, heads, length, size = x.shape
    return x.transpose(1, 2).reshape(batch, length, heads * size)


class BertLayer(nn.Module):
    """Post-norm encoder layer with exact GELU."""

    def __init__(self, hidden: int, heads: int, inner: int) -> None:
        super().__init__()
        self.heads = heads
        self.query, self.key, self.value = (nn.Linear(hidden, hidden) for _ in range(3))
        self.output = nn.Linear(hidden, hidden)
        self.norm1 = nn.LayerNorm(hidden, eps=1e-12)
        self.up, self.down = nn.Linear(hidden, inner), nn.Linear(inner, hidden)
        self.norm2 = nn.LayerNorm(hidden, eps=1e-12)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        query, key, value = (
            split_heads(part(x), self.heads) for part in (self.query, self.key, self.value)
        )
        scores = query @ key.transpose(-1, -2) / math.sqrt(query.shape[-1]) + mask
        x = self.norm1(x + self.output(joined_heads(functional.softmax(scores, dim=-1) @ value)))
        return self.norm2(x + self.down(functional.gelu(self.up(x))))


class Bert(nn.Module):
    """BERT with its embeddings; tokens, segments and mask as int32 [batch, length]."""

    def __init__(
        self, layers: int = 12, hidden: int = 768, heads: int = 12, inner: int = 3072
    ) -> None:
        super().__init__()
        self.words = nn.Embedding(30522, hidden)
        self.segments = nn.Embedding(2, hidden)
        self.positions = nn.Embedding(512, hidden)
        self.norm = nn.LayerNorm(hidden, eps=1e-12)
        self.layers = nn.ModuleList([BertLayer(hidden, heads, inner) for _ in range(layers)])
        self.pooler = nn.Linear(hidden, hidden)

    def forward(self, tokens: Tensor, segments: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        places = torch.arange(tokens.shape[1], device=tokens.device)[None]
        x = self.norm(self.words(tokens) + self.segments(segments) + self.positions(places))
        bias = (1.0 - mask[:, None, None, :].to(x.dtype)) * -10000.0
        for layer in self.layers:
            x = layer(x, bias)
        return x, torch.tanh(self.pooler(x[:, 0]))


class GptBlock(nn.Module):
    """Pre-norm decoder block with the tanh form of GELU."""

    def __init__(self, hidden: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(hidden), nn.LayerNorm(hidden)
        self.qkv, self.output = nn.Linear(hidden, 3 * hidden), nn.Linear(hidden, hidden)
        self.up, self.down = nn.Linear(hidden, 4 * hidden), nn.Linear(4 * hidden, hidden)

    def forward(self, x: Tensor, hidden_from: Tensor) -> Tensor:
        parts = self.qkv(self.norm1(x)).split(x.shape[-1], dim=2)
        query, key, value = (split_heads(part, self.heads) for part in parts)
        scores = query @ key.transpose(-1, -2) * query.shape[-1] ** -0.5
        filler = max(-1e9, torch.finfo(scores.dtype).min)
        scores = functional.softmax(scores.masked_fill(hidden_from, filler), dim=-1)
        x = x + self.output(joined_heads(scores @ value))
        return x + self.down(functional.gelu(self.up(self.norm2(x)), approximate="tanh"))


class Gpt2(nn.Module):
    """GPT-2 small; tokens as int32 [batch, length], logits over the vocabulary by the tied
    embedding.
    """

    causal: Tensor

    def __init__(
        self, layers: int = 12, hidden: int = 768, heads: int = 12, length: int = 1024
    ) -> None:
        super().__init__()
        self.words = nn.Embedding(50257, hidden)
        self.positions = nn.Embedding(length, hidden)
        self.blocks = nn.ModuleList([GptBlock(hidden, heads) for _ in range(layers)])
        self.norm = nn.LayerNorm(hidden)
        self.register_buffer(
            "causal", torch.ones(length, length, dtype=torch.bool).triu(1), persistent=False
        )

    def forward(self, tokens: Tensor) -> Tensor:
        length = tokens.shape[1]
        x = self.words(tokens) + self.positions(torch.arange(length, device=tokens.device)[None])
        for block in self.blocks:
            x = block(x, self.causal[:length, :length])
        return self.norm(x) @ self.words.weight.t()
