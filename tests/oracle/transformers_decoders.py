"""Decoders as their authors write them in MindSpore, in tiny sizes: rotary forms, ALiBi, key-value
caches, experts.
"""

from __future__ import annotations

import math

import mindspore as ms
import numpy as np
from mindspore import Parameter, Tensor, mint, nn, ops

VOCABULARY, WIDTH, HEADS, LENGTH = 48, 32, 4, 6


def causal(length: int) -> Tensor:
    """The additive mask of a decoder."""
    return Tensor(np.triu(np.full((length, length), np.finfo(np.float32).min, np.float32), 1))


def rotation(dim: int, length: int, base: float = 10000.0) -> tuple[Tensor, Tensor]:
    """Cosines and sines of rotary positions, each (length, dim), in two halves."""
    steps = np.outer(np.arange(length), 1 / base ** (np.arange(0, dim, 2) / dim))
    both = np.concatenate([steps, steps], -1).astype(np.float32)
    return Tensor(np.cos(both)), Tensor(np.sin(both))


def rotate_half(x):
    """(x1, x2) as (-x2, x1)."""
    half = x.shape[-1] // 2
    return ops.cat((-x[..., half:], x[..., :half]), -1)


class NeoXLayer(nn.Cell):
    """GPT-NeoX: attention and MLP in parallel, a quarter of each head rotated, one product for
    query, key and value.
    """

    def __init__(self):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm([WIDTH]), nn.LayerNorm([WIDTH])
        self.qkv, self.out = nn.Dense(WIDTH, 3 * WIDTH), nn.Dense(WIDTH, WIDTH)
        self.up, self.down = nn.Dense(WIDTH, 2 * WIDTH), nn.Dense(2 * WIDTH, WIDTH)
        self.dim = WIDTH // HEADS
        self.rotated = self.dim // 2
        self.cos, self.sin = rotation(self.rotated, LENGTH)
        self.act = nn.GELU(approximate=False)

    def turn(self, x):
        first, rest = x[..., : self.rotated], x[..., self.rotated :]
        return ops.cat((first * self.cos + rotate_half(first) * self.sin, rest), -1)

    def construct(self, x, mask):
        b, s, _ = x.shape
        qkv = self.qkv(self.norm1(x)).view(b, s, HEADS, 3 * self.dim).permute(0, 2, 1, 3)
        q, k, v = qkv[..., : self.dim], qkv[..., self.dim : 2 * self.dim], qkv[..., 2 * self.dim :]
        q, k = self.turn(q), self.turn(k)
        scores = ops.baddbmm(
            mask.broadcast_to((b * HEADS, s, s)),
            q.reshape(b * HEADS, s, self.dim),
            k.reshape(b * HEADS, s, self.dim).swapaxes(1, 2),
            alpha=1 / math.sqrt(self.dim),
        )
        weights = ops.softmax(scores.view(b, HEADS, s, s), -1)
        heads = ops.matmul(weights, v).permute(0, 2, 1, 3).reshape(b, s, WIDTH)
        return x + self.out(heads) + self.down(self.act(self.up(self.norm2(x))))


class GPTNeoX(nn.Cell):
    """Two layers and a head."""

    def __init__(self):
        super().__init__()
        self.embed, self.head = (
            nn.Embedding(VOCABULARY, WIDTH),
            nn.Dense(WIDTH, VOCABULARY, has_bias=False),
        )
        self.layers, self.norm = nn.CellList([NeoXLayer(), NeoXLayer()]), nn.LayerNorm([WIDTH])
        self.mask = causal(LENGTH)

    def construct(self, ids):
        x = self.embed(ids)
        for layer in self.layers:
            x = layer(x, self.mask)
        return self.head(self.norm(x))


class GPTJ(nn.Cell):
    """GPT-J: every other element rotated, which interleaves by stacking."""

    def __init__(self):
        super().__init__()
        self.embed, self.norm = nn.Embedding(VOCABULARY, WIDTH), nn.LayerNorm([WIDTH])
        self.q, self.k, self.v, self.o = (nn.Dense(WIDTH, WIDTH, has_bias=False) for _ in range(4))
        self.up, self.down = nn.Dense(WIDTH, 2 * WIDTH), nn.Dense(2 * WIDTH, WIDTH)
        angles = np.outer(np.arange(LENGTH), 1 / 10000 ** (np.arange(0, 8, 2) / 8)).astype(
            np.float32
        )
        self.sincos = Tensor(np.concatenate([np.sin(angles), np.cos(angles)], -1))
        self.bias = Tensor(np.tril(np.ones((1, 1, LENGTH, LENGTH), np.bool_)))
        self.scale = Tensor(math.sqrt(8.0), ms.float32)

    def turn(self, x, sin, cos):
        odd = ops.stack((-x[:, :, :, 1::2], x[:, :, :, ::2]), -1)
        odd = odd.reshape(x.shape)
        return x * cos + odd * sin

    def construct(self, ids, positions):
        b, s = ids.shape
        x = self.norm(self.embed(ids))
        around = ops.gather(self.sincos, positions, 0)
        sin, cos = ops.split(around, 4, -1)
        sin = ops.repeat_interleave(sin[:, :, None, :], 2, 3)
        cos = ops.repeat_interleave(cos[:, :, None, :], 2, 3)
        q, k, v = (layer(x).reshape(b, s, HEADS, 8) for layer in (self.q, self.k, self.v))
        q, k = (
            self.turn(q, sin, cos).transpose(0, 2, 1, 3),
            self.turn(k, sin, cos).transpose(0, 2, 1, 3),
        )
        scores = ops.matmul(q, k.swapaxes(-1, -2))
        scores = (
            ops.where(self.bias, scores, Tensor(np.finfo(np.float32).min, ms.float32)) / self.scale
        )
        weights = ops.softmax(scores.astype(ms.float32), axis=-1).astype(v.dtype)
        heads = (
            ops.matmul(weights, v.transpose(0, 2, 1, 3)).transpose(0, 2, 1, 3).reshape(b, s, WIDTH)
        )
        return self.o(heads) + self.down(ops.gelu(self.up(x), approximate="tanh")) + x


class RMSNorm(nn.Cell):
    """The norm of Llama, written out."""

    def __init__(self, width=WIDTH):
        super().__init__()
        self.weight = Parameter(Tensor(np.linspace(0.5, 1.5, width).astype(np.float32)))

    def construct(self, x):
        variance = x.astype(ms.float32).pow(2).mean(-1, keep_dims=True)
        return self.weight * (x * ops.rsqrt(variance + 1e-6))


class QwenLayer(nn.Cell):
    """Qwen2: two key-value heads for four, biases on query, key and value, SwiGLU, and a cache as
    inputs.
    """

    def __init__(self):
        super().__init__()
        self.dim, self.groups = WIDTH // HEADS, 2
        self.q, self.o = nn.Dense(WIDTH, WIDTH), nn.Dense(WIDTH, WIDTH, has_bias=False)
        self.k, self.v = nn.Dense(WIDTH, 2 * self.dim), nn.Dense(WIDTH, 2 * self.dim)
        self.gate, self.up = (
            nn.Dense(WIDTH, 48, has_bias=False),
            nn.Dense(WIDTH, 48, has_bias=False),
        )
        self.down, self.norm1, self.norm2 = (
            nn.Dense(48, WIDTH, has_bias=False),
            RMSNorm(),
            RMSNorm(),
        )

    def construct(self, x, cos, sin, mask, past_key, past_value):
        b, s, _ = x.shape
        y = self.norm1(x)
        q = self.q(y).view(b, s, HEADS, self.dim).swapaxes(1, 2)
        k = self.k(y).view(b, s, 2, self.dim).swapaxes(1, 2)
        v = self.v(y).view(b, s, 2, self.dim).swapaxes(1, 2)
        q, k = q * cos + rotate_half(q) * sin, k * cos + rotate_half(k) * sin
        key, value = ops.cat((past_key, k), 2), ops.cat((past_value, v), 2)
        keys = key.expand_dims(2).broadcast_to((b, 2, self.groups, key.shape[2], self.dim))
        values = value.expand_dims(2).broadcast_to((b, 2, self.groups, value.shape[2], self.dim))
        keys, values = (t.reshape(b, HEADS, -1, self.dim) for t in (keys, values))
        scores = ops.matmul(q, keys.swapaxes(2, 3)) / math.sqrt(self.dim) + mask
        heads = ops.matmul(ops.softmax(scores, -1), values).swapaxes(1, 2).reshape(b, s, WIDTH)
        x = x + self.o(heads)
        y = self.norm2(x)
        return x + self.down(ops.silu(self.gate(y)) * self.up(y)), key, value


class Qwen(nn.Cell):
    """Two layers whose caches come in and go out, one step at a time."""

    def __init__(self):
        super().__init__()
        self.embed, self.norm = nn.Embedding(VOCABULARY, WIDTH), RMSNorm()
        self.first, self.second = QwenLayer(), QwenLayer()
        self.inverse = Tensor((1 / 10000 ** (np.arange(0, 8, 2) / 8)).astype(np.float32))

    def construct(self, ids, positions, attention, key0, value0, key1, value1):
        x = self.embed(ids)
        angles = ops.matmul(
            positions.expand_dims(-1).astype(ms.float32), self.inverse.expand_dims(0)
        )
        both = ops.cat((angles, angles), -1).expand_dims(1)
        cos, sin = both.cos(), both.sin()
        mask = (1.0 - attention[:, None, None, :].astype(ms.float32)) * -10000.0
        x, key0, value0 = self.first(x, cos, sin, mask, key0, value0)
        x, key1, value1 = self.second(x, cos, sin, mask, key1, value1)
        logits = ops.matmul(self.norm(x)[:, -1:], self.embed.embedding_table.T)
        return logits, key0, value0, key1, value1


class StaticCache(nn.Cell):
    """A step that writes its key and value into caches of fixed size by position, and masks what is
    not there yet.
    """

    def __init__(self):
        super().__init__()
        self.embed, self.norm = nn.Embedding(VOCABULARY, WIDTH), nn.LayerNorm([WIDTH])
        self.qkv, self.o = mint.nn.Linear(WIDTH, 3 * WIDTH), mint.nn.Linear(WIDTH, WIDTH)

    def construct(self, ids, position, keys, values):
        x = self.embed(ids)
        b, s, _ = x.shape
        q, k, v = mint.chunk(self.qkv(self.norm(x)), 3, -1)
        q, k, v = (mint.transpose(mint.reshape(t, (b, s, HEADS, 8)), 1, 2) for t in (q, k, v))
        where = ops.arange(LENGTH).reshape(1, 1, LENGTH, 1)
        keys = mint.where(mint.eq(where, position), k, keys)
        index = mint.broadcast_to(mint.reshape(position, (1, 1, 1, 1)), (b, HEADS, 1, 8))
        values = mint.scatter(values, 2, index, v)
        scores = mint.matmul(q, mint.transpose(keys, 2, 3)) * 8**-0.5
        scores = scores.masked_fill((where > position).reshape(1, 1, 1, LENGTH), float("-inf"))
        heads = mint.matmul(mint.nn.functional.softmax(scores, -1), values)
        x = x + self.o(mint.reshape(mint.transpose(heads, 1, 2), (b, s, WIDTH)))
        return x, keys, values


class Bloom(nn.Cell):
    """ALiBi computed from the attention mask, as Bloom has it."""

    def __init__(self):
        super().__init__()
        self.embed, self.norm = nn.Embedding(VOCABULARY, WIDTH), nn.LayerNorm([WIDTH])
        self.qkv, self.o = nn.Dense(WIDTH, 3 * WIDTH), nn.Dense(WIDTH, WIDTH)
        self.slopes = Tensor((2.0 ** (-2 * np.arange(1, HEADS + 1))).astype(np.float32))
        self.causal = Tensor(np.triu(np.ones((LENGTH, LENGTH), np.bool_), 1))

    def construct(self, ids, attention):
        b, s = ids.shape
        x = self.norm(self.embed(ids))
        places = ((attention.cumsum(-1) - 1) * attention)[:, None, :]
        alibi = (self.slopes[..., None] * places.astype(ms.float32)).reshape(b, HEADS, 1, s)
        q, k, v = ops.unbind(self.qkv(x).reshape(b, s, HEADS, 3, 8), dim=-2)
        q, k, v = (t.swapaxes(1, 2) for t in (q, k, v))
        scores = ops.matmul(q, k.swapaxes(2, 3)) / math.sqrt(8) + alibi
        hidden = ops.logical_or(self.causal, attention[:, None, None, :] == 0)
        scores = scores.masked_fill(hidden, -1e9)
        heads = ops.matmul(ops.softmax(scores, -1), v).swapaxes(1, 2)
        return x + self.o(heads.reshape(b, s, WIDTH))


class Experts(nn.Cell):
    """Mixtral's layer: the two best of four experts per token, weighted anew; all experts computed
    and summed.
    """

    def __init__(self):
        super().__init__()
        self.gate, self.norm = nn.Dense(WIDTH, 4, has_bias=False), RMSNorm()
        self.up = Parameter(
            Tensor(np.random.standard_normal((4, WIDTH, 40)).astype(np.float32) * 0.2)
        )
        self.down = Parameter(
            Tensor(np.random.standard_normal((4, 40, WIDTH)).astype(np.float32) * 0.2)
        )

    def construct(self, x):
        b, s, _ = x.shape
        flat = self.norm(x).reshape(-1, WIDTH)
        chances = ops.softmax(self.gate(flat).astype(ms.float32), -1)
        best, chosen = ops.topk(chances, 2, -1)
        best /= best.sum(-1, keepdims=True)
        share = (
            ops.one_hot(chosen, 4, Tensor(1.0, ms.float32), Tensor(0.0, ms.float32))
            * best[..., None]
        ).sum(1)
        hidden = ops.silu(ops.bmm(flat.broadcast_to((4, b * s, WIDTH)), self.up))
        each = ops.bmm(hidden, self.down)
        total = ops.zeros_like(flat)
        for expert in range(4):
            total += each[expert] * share[:, expert : expert + 1]
        return x + total.reshape(b, s, WIDTH)


class Gemma(nn.Cell):
    """A sliding window, capped scores and logits, query and key normalised, a scaled embedding."""

    def __init__(self):
        super().__init__()
        self.embed = mint.nn.Embedding(VOCABULARY, WIDTH)
        self.qkv, self.o = (
            mint.nn.Linear(WIDTH, 3 * WIDTH, bias=False),
            mint.nn.Linear(WIDTH, WIDTH, bias=False),
        )
        self.norm, self.small = RMSNorm(), RMSNorm(8)
        self.cos, self.sin = rotation(8, LENGTH)
        rows, columns = np.indices((LENGTH, LENGTH))
        self.window = Tensor((columns > rows) | (columns <= rows - 3))

    def construct(self, ids):
        b, s = ids.shape
        x = self.embed(ids) * WIDTH**0.5
        q, k, v = mint.split(self.qkv(self.norm(x)), WIDTH, dim=-1)
        q, k, v = (t.view(b, s, HEADS, 8).swapaxes(1, 2) for t in (q, k, v))
        q, k = self.small(q), self.small(k)
        q, k = q * self.cos + rotate_half(q) * self.sin, k * self.cos + rotate_half(k) * self.sin
        scores = mint.tanh(mint.matmul(q, mint.transpose(k, -1, -2)) / 50.0) * 50.0
        scores = scores.masked_fill(self.window, float("-inf"))
        heads = mint.matmul(mint.softmax(scores, -1), v).swapaxes(1, 2).reshape(b, s, -1)
        x = x + self.o(heads)
        logits = mint.nn.functional.linear(x, self.embed.weight)
        return 30.0 * mint.tanh(logits / 30.0)
