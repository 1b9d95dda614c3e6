"""ViT-B/32 and Swin-T in torch, as mindcv has them in MindSpore."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from .text import joined_heads, split_heads

_EPSILON = 1e-7  # MindSpore's default


class Mlp(nn.Module):
    """Two layers around GELU in its tanh form, MindSpore's default."""

    def __init__(self, hidden: int) -> None:
        super().__init__()
        self.fc1, self.fc2 = nn.Linear(hidden, 4 * hidden), nn.Linear(4 * hidden, hidden)

    def forward(self, x: Tensor) -> Tensor:
        return self.fc2(functional.gelu(self.fc1(x), approximate="tanh"))


class PatchEmbed(nn.Module):
    """Patches of an image as [batch, patches, channels]."""

    def __init__(self, size: int, hidden: int, norm: bool) -> None:
        super().__init__()
        self.proj = nn.Conv2d(3, hidden, size, size)
        self.norm = nn.LayerNorm(hidden, eps=1e-5) if norm else nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        return self.norm(self.proj(x).flatten(2).transpose(1, 2))


class Attention(nn.Module):
    """Self-attention with one projection for all three."""

    def __init__(self, hidden: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.qkv, self.proj = nn.Linear(hidden, 3 * hidden), nn.Linear(hidden, hidden)

    def forward(self, x: Tensor) -> Tensor:
        batch, length, hidden = x.shape
        size = hidden // self.heads
        query, key, value = (
            self.qkv(x).reshape(batch, length, 3, self.heads, size).permute(2, 0, 3, 1, 4).unbind(0)
        )
        scores = functional.softmax(query @ key.transpose(-1, -2) * size**-0.5, dim=-1)
        return self.proj(joined_heads(scores @ value))


class Block(nn.Module):
    """Pre-norm transformer block."""

    def __init__(self, hidden: int, heads: int) -> None:
        super().__init__()
        self.norm1, self.norm2 = (
            nn.LayerNorm(hidden, eps=_EPSILON),
            nn.LayerNorm(hidden, eps=_EPSILON),
        )
        self.attn, self.mlp = Attention(hidden, heads), Mlp(hidden)

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attn(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class Vit(nn.Module):
    """ViT-B/32: logits [batch, 1000] of images [batch, 3, 224, 224]."""

    def __init__(self, hidden: int = 768, depth: int = 12, heads: int = 12) -> None:
        super().__init__()
        self.patch_embed = PatchEmbed(32, hidden, norm=False)
        self.cls_token = nn.Parameter(torch.zeros(1, 1, hidden))
        self.pos_embed = nn.Parameter(torch.zeros(1, 50, hidden))
        self.blocks = nn.ModuleList([Block(hidden, heads) for _ in range(depth)])
        self.norm, self.head = nn.LayerNorm(hidden, eps=_EPSILON), nn.Linear(hidden, 1000)

    def forward(self, x: Tensor) -> Tensor:
        x = self.patch_embed(x)
        x = torch.cat((self.cls_token.expand(x.shape[0], -1, -1), x), dim=1) + self.pos_embed
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x)[:, 0])


class RelativeBias(nn.Module):
    """A bias per pair of places in a window, by one-hot index."""

    def __init__(self, window: int, heads: int) -> None:
        super().__init__()
        self.places, count = window * window, (2 * window - 1) ** 2
        self.relative_position_bias_table = nn.Parameter(torch.zeros(count, heads))
        self.index = nn.Parameter(torch.zeros(self.places * self.places, count))

    def forward(self) -> Tensor:
        bias = self.index @ self.relative_position_bias_table
        return bias.reshape(self.places, self.places, -1).permute(2, 0, 1)[None]


class WindowAttention(nn.Module):
    """Attention inside windows."""

    def __init__(self, hidden: int, window: int, heads: int) -> None:
        super().__init__()
        self.heads, self.scale = heads, (hidden // heads) ** -0.5
        self.relative_bias = RelativeBias(window, heads)
        self.q, self.k, self.v, self.proj = (nn.Linear(hidden, hidden) for _ in range(4))

    def forward(self, x: Tensor, mask: Tensor | None) -> Tensor:
        query, key, value = (split_heads(part(x), self.heads) for part in (self.q, self.k, self.v))
        scores = (query * self.scale) @ key.transpose(-1, -2) + self.relative_bias()
        if mask is not None:
            windows, (count, heads, places, _) = mask.shape[1], scores.shape
            scores = scores.reshape(count // windows, windows, heads, places, places) + mask
            scores = scores.reshape(-1, heads, places, places)
        return self.proj(joined_heads(functional.softmax(scores, dim=-1) @ value))


class SwinBlock(nn.Module):
    """Pre-norm block over windows, every second one shifted."""

    def __init__(self, hidden: int, side: int, heads: int, shift: int, window: int = 7) -> None:
        super().__init__()
        self.side, self.window, self.shift = side, window, 0 if side <= window else shift
        self.norm1, self.norm2 = nn.LayerNorm(hidden, eps=1e-5), nn.LayerNorm(hidden, eps=1e-5)
        self.attn, self.mlp = WindowAttention(hidden, window, heads), Mlp(hidden)
        places = window * window
        self.attn_mask = (
            nn.Parameter(torch.zeros(1, (side // window) ** 2, 1, places, places))
            if self.shift
            else None
        )

    def forward(self, x: Tensor) -> Tensor:
        batch, length, hidden = x.shape
        side, window, count = self.side, self.window, self.side // self.window
        y = self.norm1(x).reshape(batch, side, side, hidden)
        y = y.roll((-self.shift, -self.shift), (1, 2)) if self.shift else y
        y = y.reshape(batch, count, window, count, window, hidden).permute(0, 1, 3, 2, 4, 5)
        y = self.attn(y.reshape(-1, window * window, hidden), self.attn_mask)
        y = y.reshape(batch, count, count, window, window, hidden).permute(0, 1, 3, 2, 4, 5)
        y = y.reshape(batch, side, side, hidden)
        y = y.roll((self.shift, self.shift), (1, 2)) if self.shift else y
        x = x + y.reshape(batch, length, hidden)
        return x + self.mlp(self.norm2(x))


class PatchMerging(nn.Module):
    """Four neighbours become one of twice the channels."""

    def __init__(self, hidden: int, side: int) -> None:
        super().__init__()
        self.side = side
        self.reduction = nn.Linear(4 * hidden, 2 * hidden, bias=False)
        self.norm = nn.LayerNorm(4 * hidden, eps=_EPSILON)

    def forward(self, x: Tensor) -> Tensor:
        batch, length, hidden = x.shape
        half = self.side // 2
        x = x.reshape(batch, half, 2, half, 2, hidden).permute(0, 1, 3, 4, 2, 5)
        return self.reduction(self.norm(x.reshape(batch, length // 4, 4 * hidden)))


class Stage(nn.Module):
    """Blocks of one resolution."""

    def __init__(self, hidden: int, side: int, depth: int, heads: int, last: bool) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(
            [SwinBlock(hidden, side, heads, shift=3 * (i % 2)) for i in range(depth)]
        )
        self.downsample = nn.Identity() if last else PatchMerging(hidden, side)

    def forward(self, x: Tensor) -> Tensor:
        for block in self.blocks:
            x = block(x)
        return self.downsample(x)


class Swin(nn.Module):
    """Swin-T: logits [batch, 1000] of images [batch, 3, 224, 224]."""

    def __init__(self) -> None:
        super().__init__()
        self.patch_embed = PatchEmbed(4, 96, norm=True)
        stages = enumerate(((2, 3), (2, 6), (6, 12), (2, 24)))
        self.layers = nn.ModuleList(
            [Stage(96 << i, 56 >> i, depth, heads, i == 3) for i, (depth, heads) in stages]
        )
        self.norm, self.classifier = nn.LayerNorm(768, eps=1e-5), nn.Linear(768, 1000)

    def forward(self, x: Tensor) -> Tensor:
        x = self.patch_embed(x)
        for layer in self.layers:
            x = layer(x)
        return self.classifier(self.norm(x).mean(dim=1))
