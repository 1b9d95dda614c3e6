"""Encoders, and models of an encoder and a decoder, as their authors write them in MindSpore, in
tiny sizes.
"""

from __future__ import annotations

import math

import mindspore as ms
import numpy as np
from mindspore import Parameter, Tensor, mint, nn, ops
from transformers_decoders import VOCABULARY, RMSNorm, causal

WIDTH, HEADS, WORDS = 16, 2, 7


def weight(*shape: int, scale: float = 0.2) -> Parameter:
    """A random parameter."""
    return Parameter(Tensor(np.random.standard_normal(shape).astype(np.float32) * scale))


class T5Attention(nn.Cell):
    """Attention without scale; the bias of a relative position comes from its bucket, worked out in
    the graph.
    """

    def __init__(self, bidirectional=True, biased=False):
        super().__init__()
        self.q, self.k, self.v, self.o = (nn.Dense(WIDTH, WIDTH, has_bias=False) for _ in range(4))
        self.bidirectional, self.biased = bidirectional, biased
        self.bias = nn.Embedding(8, HEADS) if biased else None

    def bucket(self, relative):
        buckets, furthest = 8, 16
        result = ops.zeros_like(relative)
        if self.bidirectional:
            buckets //= 2
            result += (relative > 0).astype(ms.int64) * buckets
            relative = ops.abs(relative)
        else:
            relative = -ops.minimum(relative, ops.zeros_like(relative))
        exact = buckets // 2
        far = exact + (
            ops.log(relative.astype(ms.float32) / exact + 1e-6)
            / math.log(furthest / exact)
            * (buckets - exact)
        ).astype(ms.int64)
        far = ops.minimum(far, ops.full_like(far, buckets - 1))
        return result + ops.where(relative < exact, relative, far)

    def positions(self, queries, keys):
        rows = ops.arange(queries, dtype=ms.int64)[:, None]
        columns = ops.arange(keys, dtype=ms.int64)[None, :]
        return self.bias(self.bucket(columns - rows)).permute(2, 0, 1).unsqueeze(0)

    def construct(self, x, memory, position, mask):
        b, s, _ = x.shape
        q, k, v = (
            layer(t).view(b, -1, HEADS, 8).swapaxes(1, 2)
            for layer, t in ((self.q, x), (self.k, memory), (self.v, memory))
        )
        if self.biased:
            position = self.positions(s, memory.shape[1])
        scores = ops.matmul(q, k.swapaxes(3, 2))
        scores += position + mask
        weights = ops.softmax(scores.float(), axis=-1).astype(scores.dtype)
        return self.o(ops.matmul(weights, v).swapaxes(1, 2).view(b, s, WIDTH)), position


class T5Block(nn.Cell):
    """Self-attention, attention to the encoder where there is one, gated GELU."""

    def __init__(self, decoder=False, biased=False):
        super().__init__()
        self.attention, self.decoder = T5Attention(not decoder, biased), decoder
        self.cross = T5Attention() if decoder else None
        self.norms = nn.CellList([RMSNorm(WIDTH) for _ in range(3)])
        self.gate, self.up = (
            nn.Dense(WIDTH, 40, has_bias=False),
            nn.Dense(WIDTH, 40, has_bias=False),
        )
        self.down = nn.Dense(40, WIDTH, has_bias=False)

    def construct(self, x, position, mask, memory, memory_mask):
        y = self.norms[0](x)
        y, position = self.attention(y, y, position, mask)
        x = x + y
        if self.decoder:
            y, _ = self.cross(self.norms[1](x), memory, 0.0, memory_mask)
            x = x + y
        y = self.norms[2](x)
        return x + self.down(ops.gelu(self.gate(y), approximate="tanh") * self.up(y)), position


class T5(nn.Cell):
    """An encoder of one block that has the bias and one that takes it, a decoder of one block."""

    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(VOCABULARY, WIDTH)
        self.encoder = nn.CellList([T5Block(biased=True), T5Block()])
        self.decoder = nn.CellList([T5Block(True, biased=True)])
        self.norm1, self.norm2, self.causal = RMSNorm(WIDTH), RMSNorm(WIDTH), causal(5)

    def construct(self, ids, attention, decoded):
        mask = (1.0 - attention[:, None, None, :].float()) * np.finfo(np.float32).min
        x, position = self.embed(ids), 0.0
        for block in self.encoder:
            x, position = block(x, position, mask, 0.0, 0.0)
        memory, x, position = self.norm1(x), self.embed(decoded), 0.0
        for block in self.decoder:
            x, position = block(x, position, self.causal, memory, mask)
        return ops.matmul(
            self.norm2(x) * WIDTH**-0.5, self.embed.embedding_table.swapaxes(0, 1)
        ), memory


class ClipLayer(nn.Cell):
    """A layer with quick GELU."""

    def __init__(self):
        super().__init__()
        self.norm1, self.norm2 = (
            nn.LayerNorm([WIDTH], epsilon=1e-5),
            nn.LayerNorm([WIDTH], epsilon=1e-5),
        )
        self.q, self.k, self.v, self.o = (nn.Dense(WIDTH, WIDTH) for _ in range(4))
        self.up, self.down = nn.Dense(WIDTH, 2 * WIDTH), nn.Dense(2 * WIDTH, WIDTH)

    def construct(self, x, mask):
        b, s, _ = x.shape
        y = self.norm1(x)
        q = (self.q(y) * 8**-0.5).view(b, s, HEADS, 8).swapaxes(1, 2).reshape(b * HEADS, s, 8)
        k, v = (
            f(y).view(b, s, HEADS, 8).swapaxes(1, 2).reshape(b * HEADS, s, 8)
            for f in (self.k, self.v)
        )
        scores = ops.bmm(q, k.swapaxes(1, 2))
        if mask is not None:
            scores = (scores.view(b, HEADS, s, s) + mask).view(b * HEADS, s, s)
        heads = (
            ops.bmm(ops.softmax(scores, -1), v)
            .view(b, HEADS, s, 8)
            .swapaxes(1, 2)
            .reshape(b, s, WIDTH)
        )
        x = x + self.o(heads)
        y = self.up(self.norm2(x))
        return x + self.down(y * ops.sigmoid(1.702 * y))


class Clip(nn.Cell):
    """A text tower pooled at its end token, a vision tower pooled at its class token, and their
    cosines.
    """

    def __init__(self):
        super().__init__()
        self.words, self.places = nn.Embedding(VOCABULARY, WIDTH), weight(WORDS, WIDTH)
        self.patches = nn.Conv2d(3, WIDTH, 4, 4, pad_mode="valid", has_bias=False)
        self.one, self.spots = weight(WIDTH), weight(17, WIDTH)
        self.text, self.vision = nn.CellList([ClipLayer()]), nn.CellList([ClipLayer()])
        self.norms = nn.CellList([nn.LayerNorm([WIDTH]) for _ in range(3)])
        self.to_text, self.to_image = weight(WIDTH, 16), weight(WIDTH, 16)
        self.scale = Parameter(Tensor(2.6592, ms.float32))
        self.causal = causal(WORDS)

    def construct(self, ids, pixels):
        x = self.words(ids) + self.places
        for layer in self.text:
            x = layer(x, self.causal)
        x = self.norms[0](x)
        text = ops.matmul(x[ops.arange(ids.shape[0]), ids.argmax(-1)], self.to_text)
        b = pixels.shape[0]
        y = self.patches(pixels).flatten(start_dim=2).swapaxes(1, 2)
        y = self.norms[1](ops.cat((self.one.broadcast_to((b, 1, WIDTH)), y), 1) + self.spots)
        for layer in self.vision:
            y = layer(y, None)
        image = ops.matmul(self.norms[2](y[:, 0, :]), self.to_image)
        text, image = (
            text / text.norm(dim=-1, keepdim=True),
            image / image.norm(dim=-1, keepdim=True),
        )
        logits = ops.matmul(text, image.swapaxes(0, 1)) * self.scale.exp()
        return logits, logits.swapaxes(0, 1), text, image


class Whisper(nn.Cell):
    """Two convolutions over time, sinusoids, an encoder layer, and a decoder layer that attends to
    it.
    """

    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv1d(10, WIDTH, 3, pad_mode="pad", padding=1, has_bias=True)
        self.conv2 = nn.Conv1d(WIDTH, WIDTH, 3, stride=2, pad_mode="pad", padding=1, has_bias=True)
        angles = np.outer(np.arange(12), np.exp(-np.arange(8) * math.log(10000) / 7))
        self.places = Tensor(np.concatenate([np.sin(angles), np.cos(angles)], 1).astype(np.float32))
        self.encoder, self.embed, self.spots = (
            ClipLayer(),
            nn.Embedding(VOCABULARY, WIDTH),
            weight(WORDS, WIDTH),
        )
        self.decoder, self.norm, self.cross = (
            ClipLayer(),
            nn.LayerNorm([WIDTH]),
            nn.MultiheadAttention(WIDTH, HEADS),
        )
        self.mask = causal(5)

    def construct(self, mel, ids):
        x = ops.gelu(self.conv1(mel))
        x = ops.gelu(self.conv2(x)).permute(0, 2, 1) + self.places
        memory = self.norm(self.encoder(x, None))
        y = self.decoder(self.embed(ids) + self.spots[: ids.shape[1]], self.mask)
        attended, weights = self.cross(
            y.swapaxes(0, 1), memory.swapaxes(0, 1), memory.swapaxes(0, 1)
        )
        y = y + attended.swapaxes(0, 1)
        return ops.matmul(y, self.embed.embedding_table.T), weights


class Deberta(nn.Cell):
    """Disentangled attention: content to position and position to content, gathered by relative
    distance.
    """

    def __init__(self):
        super().__init__()
        self.embed, self.norm = (
            nn.Embedding(VOCABULARY, WIDTH, padding_idx=0),
            nn.LayerNorm([WIDTH]),
        )
        self.q, self.k, self.v, self.o = (mint.nn.Linear(WIDTH, WIDTH) for _ in range(4))
        self.distances = weight(8, WIDTH)

    def split(self, x):
        return mint.permute(x.view(x.shape[0], x.shape[1], HEADS, 8), (0, 2, 1, 3))

    def construct(self, ids):
        b, s = ids.shape
        mask = mint.ne(ids, 0)
        x = self.norm(self.embed(ids) * mask.unsqueeze(-1).astype(ms.float32))
        q, k, v = self.split(self.q(x)), self.split(self.k(x)), self.split(self.v(x))
        far = mint.unsqueeze(self.distances, 0)
        pos_q, pos_k = self.split(self.q(far)), self.split(self.k(far))
        places = ops.arange(s)
        relative = mint.clamp(mint.unsqueeze(places, 1) - mint.unsqueeze(places, 0) + 4, 0, 7)
        index = mint.broadcast_to(relative, (b, HEADS, s, s))
        scores = mint.matmul(q, mint.transpose(k, -1, -2))
        scores = scores + mint.gather(mint.matmul(q, mint.transpose(pos_k, -1, -2)), -1, index)
        back = mint.gather(
            mint.matmul(k, mint.transpose(pos_q, -1, -2)), -1, mint.clamp(8 - index, 0, 7)
        )
        scores = (scores + mint.transpose(back, -1, -2)) * (1 / math.sqrt(24))
        seen = mint.logical_and(mask[:, None, None, :], mask[:, None, :, None])
        scores = mint.where(seen, scores, Tensor(-3.4e38, ms.float32))
        weights = mint.nn.functional.softmax(scores, -1) * seen.astype(ms.float32)
        heads = mint.permute(mint.matmul(weights, v), (0, 2, 1, 3)).contiguous().view(b, s, -1)
        return x + self.o(heads)


class FrameworkEncoder(nn.Cell):
    """MindSpore's own nn.Transformer cells: a padded encoder and a causal decoder, batch first."""

    def __init__(self):
        super().__init__()
        self.encoder = nn.TransformerEncoder(
            nn.TransformerEncoderLayer(
                WIDTH, HEADS, 40, dropout=0.0, batch_first=True, norm_first=True
            ),
            1,
        )
        self.decoder = nn.TransformerDecoder(
            nn.TransformerDecoderLayer(
                WIDTH, HEADS, 40, dropout=0.0, activation="gelu", batch_first=True
            ),
            1,
        )
        self.mask = causal(5)

    def construct(self, x, y, padding):
        memory = self.encoder(x, src_key_padding_mask=padding)
        return self.decoder(y, memory, tgt_mask=self.mask)
