"""Transformers and a diffusion UNet as MindSpore cells, written as model code on the hub writes
them.

bench/twins holds each of them once more in torch, with the same names of its parameters.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from mindspore import Tensor, nn, ops


class BertLayer(nn.Cell):
    """Post-norm encoder layer with exact GELU."""

    def __init__(self, hidden: int, heads: int, inner: int) -> None:
        super().__init__()
        self.heads, self.size = heads, hidden // heads
        self.query, self.key, self.value = (nn.Dense(hidden, hidden) for _ in range(3))
        self.output = nn.Dense(hidden, hidden)
        self.norm1 = nn.LayerNorm((hidden,), epsilon=1e-12)
        self.up, self.down = nn.Dense(hidden, inner), nn.Dense(inner, hidden)
        self.norm2 = nn.LayerNorm((hidden,), epsilon=1e-12)
        self.act = nn.GELU(approximate=False)

    def split(self, x: Tensor) -> Tensor:
        batch, length, _ = x.shape
        return x.reshape(batch, length, self.heads, self.size).transpose(0, 2, 1, 3)

    def construct(self, x: Tensor, mask: Tensor) -> Tensor:
        query, key, value = (
            self.split(self.query(x)),
            self.split(self.key(x)),
            self.split(self.value(x)),
        )
        scores = ops.matmul(query, key.swapaxes(-1, -2)) / self.size**0.5 + mask
        context = (
            ops.matmul(ops.softmax(scores, axis=-1), value).transpose(0, 2, 1, 3).reshape(x.shape)
        )
        x = self.norm1(x + self.output(context))
        return self.norm2(x + self.down(self.act(self.up(x))))


class Bert(nn.Cell):
    """BERT with its embeddings; tokens, segments and mask as int32 [batch, length]."""

    def __init__(
        self, layers: int = 12, hidden: int = 768, heads: int = 12, inner: int = 3072
    ) -> None:
        super().__init__()
        self.words = nn.Embedding(30522, hidden)
        self.segments = nn.Embedding(2, hidden)
        self.positions = nn.Embedding(512, hidden)
        self.norm = nn.LayerNorm((hidden,), epsilon=1e-12)
        self.layers = nn.CellList([BertLayer(hidden, heads, inner) for _ in range(layers)])
        self.pooler = nn.Dense(hidden, hidden)
        self.place = Tensor(np.arange(512, dtype=np.int32)[None])

    def construct(self, tokens: Tensor, segments: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        length = tokens.shape[1]
        x = self.words(tokens) + self.segments(segments) + self.positions(self.place[:, :length])
        x = self.norm(x)
        bias = (1.0 - mask[:, None, None, :].astype(x.dtype)) * -10000.0
        for layer in self.layers:
            x = layer(x, bias)
        return x, ops.tanh(self.pooler(x[:, 0]))


class GptBlock(nn.Cell):
    """Pre-norm decoder block with the tanh form of GELU."""

    def __init__(self, hidden: int, heads: int) -> None:
        super().__init__()
        self.heads, self.size = heads, hidden // heads
        self.norm1, self.norm2 = (
            nn.LayerNorm((hidden,), epsilon=1e-5),
            nn.LayerNorm((hidden,), epsilon=1e-5),
        )
        self.qkv, self.output = nn.Dense(hidden, 3 * hidden), nn.Dense(hidden, hidden)
        self.up, self.down = nn.Dense(hidden, 4 * hidden), nn.Dense(4 * hidden, hidden)
        self.act = nn.GELU(approximate=True)

    def split(self, x: Tensor) -> Tensor:
        batch, length, _ = x.shape
        return x.reshape(batch, length, self.heads, self.size).transpose(0, 2, 1, 3)

    def attend(self, x: Tensor, hidden_from: Tensor) -> Tensor:
        query, key, value = ops.split(self.qkv(x), x.shape[-1], axis=2)
        query, key, value = self.split(query), self.split(key), self.split(value)
        scores = ops.matmul(query, key.swapaxes(-1, -2)) * self.size**-0.5
        scores = ops.softmax(scores.masked_fill(hidden_from, -1e9), axis=-1)
        return self.output(ops.matmul(scores, value).transpose(0, 2, 1, 3).reshape(x.shape))

    def construct(self, x: Tensor, hidden_from: Tensor) -> Tensor:
        x = x + self.attend(self.norm1(x), hidden_from)
        return x + self.down(self.act(self.up(self.norm2(x))))


class Gpt2(nn.Cell):
    """GPT-2 small; tokens as int32 [batch, length], logits over the vocabulary by the tied
    embedding.
    """

    def __init__(
        self, layers: int = 12, hidden: int = 768, heads: int = 12, length: int = 1024
    ) -> None:
        super().__init__()
        self.words = nn.Embedding(50257, hidden)
        self.positions = nn.Embedding(length, hidden)
        self.blocks = nn.CellList([GptBlock(hidden, heads) for _ in range(layers)])
        self.norm = nn.LayerNorm((hidden,), epsilon=1e-5)
        self.place = Tensor(np.arange(length, dtype=np.int32)[None])
        self.causal = Tensor(np.triu(np.ones((length, length), bool), 1))

    def construct(self, tokens: Tensor) -> Tensor:
        length = tokens.shape[1]
        x = self.words(tokens) + self.positions(self.place[:, :length])
        hidden_from = self.causal[:length, :length]
        for block in self.blocks:
            x = block(x, hidden_from)
        return ops.matmul(self.norm(x), self.words.embedding_table.swapaxes(0, 1))


def _conv(inputs: int, outputs: int, size: int, stride: int = 1) -> Any:
    pads = {"pad_mode": "pad", "padding": 1} if size == 3 else {}
    return nn.Conv2d(inputs, outputs, size, stride, has_bias=True, **pads)


class Residual(nn.Cell):
    """GroupNorm, SiLU, convolution, twice, with the time embedding between."""

    def __init__(self, inputs: int, outputs: int, time: int) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.GroupNorm(32, inputs), nn.GroupNorm(32, outputs)
        self.conv1, self.conv2 = _conv(inputs, outputs, 3), _conv(outputs, outputs, 3)
        self.time = nn.Dense(time, outputs)
        self.short = nn.Identity() if inputs == outputs else _conv(inputs, outputs, 1)

    def construct(self, x: Tensor, time: Tensor) -> Tensor:
        y = self.conv1(ops.silu(self.norm1(x))) + self.time(ops.silu(time))[:, :, None, None]
        return self.short(x) + self.conv2(ops.silu(self.norm2(y)))


class Attention(nn.Cell):
    """Attention of x to a context, heads of 64."""

    def __init__(self, hidden: int, context: int) -> None:
        super().__init__()
        self.heads = hidden // 64
        self.query = nn.Dense(hidden, hidden, has_bias=False)
        self.key, self.value = (nn.Dense(context, hidden, has_bias=False) for _ in range(2))
        self.output = nn.Dense(hidden, hidden)

    def split(self, x: Tensor) -> Tensor:
        batch, length, _ = x.shape
        return x.reshape(batch, length, self.heads, 64).transpose(0, 2, 1, 3)

    def construct(self, x: Tensor, context: Tensor) -> Tensor:
        query, key, value = (
            self.split(self.query(x)),
            self.split(self.key(context)),
            self.split(self.value(context)),
        )
        scores = ops.softmax(ops.matmul(query, key.swapaxes(-1, -2)) * 64**-0.5, axis=-1)
        return self.output(ops.matmul(scores, value).transpose(0, 2, 1, 3).reshape(x.shape))


class Spatial(nn.Cell):
    """A transformer block over the pixels: self-attention, cross-attention, GEGLU."""

    def __init__(self, hidden: int, context: int) -> None:
        super().__init__()
        self.norm = nn.GroupNorm(32, hidden, 1e-6)
        self.enter, self.leave = _conv(hidden, hidden, 1), _conv(hidden, hidden, 1)
        self.norm1, self.norm2, self.norm3 = (
            nn.LayerNorm((hidden,), epsilon=1e-5) for _ in range(3)
        )
        self.own, self.cross = Attention(hidden, hidden), Attention(hidden, context)
        self.up, self.down = nn.Dense(hidden, 8 * hidden), nn.Dense(4 * hidden, hidden)

    def construct(self, x: Tensor, context: Tensor) -> Tensor:
        batch, channels, height, width = x.shape
        y = self.enter(self.norm(x)).reshape(batch, channels, height * width).transpose(0, 2, 1)
        y1 = self.norm1(y)
        y = y + self.own(y1, y1)
        y = y + self.cross(self.norm2(y), context)
        value, gate = ops.split(self.up(self.norm3(y)), 4 * channels, axis=-1)
        y = y + self.down(value * ops.gelu(gate, approximate="none"))
        return x + self.leave(y.transpose(0, 2, 1).reshape(batch, channels, height, width))


class UNet(nn.Cell):
    """Three levels of Stable Diffusion's UNet; sample [1, 4, h, w], timestep int32 [1], context [1,
    77, 768].
    """

    def __init__(self, base: int = 128, context: int = 768) -> None:
        super().__init__()
        wide, deep, time = 2 * base, 4 * base, 4 * base
        self.time1, self.time2 = nn.Dense(base, time), nn.Dense(time, time)
        self.frequencies = Tensor(
            np.exp(-np.log(1e4) * np.arange(base // 2, dtype=np.float32) / (base // 2))[None]
        )
        self.enter = _conv(4, base, 3)
        self.down1, self.attend1 = Residual(base, base, time), Spatial(base, context)
        self.shrink1 = _conv(base, base, 3, 2)
        self.down2, self.attend2 = Residual(base, wide, time), Spatial(wide, context)
        self.shrink2 = _conv(wide, wide, 3, 2)
        self.middle1, self.attend3 = Residual(wide, deep, time), Spatial(deep, context)
        self.middle2 = Residual(deep, deep, time)
        self.grow2, self.grow1 = _conv(deep, wide, 3), _conv(wide, base, 3)
        self.up2, self.attend4 = Residual(2 * wide, wide, time), Spatial(wide, context)
        self.up1, self.attend5 = Residual(2 * base, base, time), Spatial(base, context)
        self.norm, self.leave = nn.GroupNorm(32, base), _conv(base, 4, 3)

    def larger(self, x: Tensor) -> Tensor:
        return ops.interpolate(x, size=(x.shape[2] * 2, x.shape[3] * 2), mode="nearest")

    def construct(self, sample: Tensor, timestep: Tensor, context: Tensor) -> Tensor:
        angles = timestep[:, None].astype(sample.dtype) * self.frequencies
        time = ops.concat((ops.cos(angles), ops.sin(angles)), axis=-1)
        time = self.time2(ops.silu(self.time1(time)))
        x1 = self.attend1(self.down1(self.enter(sample), time), context)
        x2 = self.attend2(self.down2(self.shrink1(x1), time), context)
        x = self.attend3(self.middle1(self.shrink2(x2), time), context)
        x = self.grow2(self.larger(self.middle2(x, time)))
        x = self.attend4(self.up2(ops.concat((x, x2), axis=1), time), context)
        x = self.grow1(self.larger(x))
        x = self.attend5(self.up1(ops.concat((x, x1), axis=1), time), context)
        return self.leave(ops.silu(self.norm(x)))
