"""A small Stable Diffusion UNet in torch, as tests/oracle/bench_cells.py has it in MindSpore."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional

from .text import joined_heads, split_heads


def _conv(inputs: int, outputs: int, size: int, stride: int = 1) -> nn.Conv2d:
    return nn.Conv2d(inputs, outputs, size, stride, padding=size // 2)


class Residual(nn.Module):
    """GroupNorm, SiLU, convolution, twice, with the time embedding between."""

    def __init__(self, inputs: int, outputs: int, time: int) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.GroupNorm(32, inputs), nn.GroupNorm(32, outputs)
        self.conv1, self.conv2 = _conv(inputs, outputs, 3), _conv(outputs, outputs, 3)
        self.time = nn.Linear(time, outputs)
        self.short = nn.Identity() if inputs == outputs else _conv(inputs, outputs, 1)

    def forward(self, x: Tensor, time: Tensor) -> Tensor:
        y = (
            self.conv1(functional.silu(self.norm1(x)))
            + self.time(functional.silu(time))[:, :, None, None]
        )
        return self.short(x) + self.conv2(functional.silu(self.norm2(y)))


class Attention(nn.Module):
    """Attention of x to a context, heads of 64."""

    def __init__(self, hidden: int, context: int) -> None:
        super().__init__()
        self.heads = hidden // 64
        self.query = nn.Linear(hidden, hidden, bias=False)
        self.key, self.value = (nn.Linear(context, hidden, bias=False) for _ in range(2))
        self.output = nn.Linear(hidden, hidden)

    def forward(self, x: Tensor, context: Tensor) -> Tensor:
        parts = (self.query(x), self.key(context), self.value(context))
        query, key, value = (split_heads(part, self.heads) for part in parts)
        scores = functional.softmax(query @ key.transpose(-1, -2) * 64**-0.5, dim=-1)
        return self.output(joined_heads(scores @ value))


class Spatial(nn.Module):
    """A transformer block over the pixels: self-attention, cross-attention, GEGLU."""

    def __init__(self, hidden: int, context: int) -> None:
        super().__init__()
        self.norm = nn.GroupNorm(32, hidden, eps=1e-6)
        self.enter, self.leave = _conv(hidden, hidden, 1), _conv(hidden, hidden, 1)
        self.norm1, self.norm2, self.norm3 = (nn.LayerNorm(hidden) for _ in range(3))
        self.own, self.cross = Attention(hidden, hidden), Attention(hidden, context)
        self.up, self.down = nn.Linear(hidden, 8 * hidden), nn.Linear(4 * hidden, hidden)

    def forward(self, x: Tensor, context: Tensor) -> Tensor:
        y = self.enter(self.norm(x)).flatten(2).transpose(1, 2)
        y1 = self.norm1(y)
        y = y + self.own(y1, y1)
        y = y + self.cross(self.norm2(y), context)
        value, gate = self.up(self.norm3(y)).chunk(2, dim=-1)
        y = y + self.down(value * functional.gelu(gate))
        return x + self.leave(y.transpose(1, 2).reshape(x.shape))


class UNet(nn.Module):
    """Three levels of Stable Diffusion's UNet; sample [1, 4, h, w], timestep int32 [1], context [1,
    77, 768].
    """

    frequencies: Tensor

    def __init__(self, base: int = 128, context: int = 768) -> None:
        super().__init__()
        wide, deep, time = 2 * base, 4 * base, 4 * base
        self.time1, self.time2 = nn.Linear(base, time), nn.Linear(time, time)
        powers = torch.arange(base // 2, dtype=torch.float32) / (base // 2)
        self.register_buffer(
            "frequencies", torch.exp(-math.log(1e4) * powers)[None], persistent=False
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
        return functional.interpolate(x, size=(x.shape[2] * 2, x.shape[3] * 2), mode="nearest")

    def forward(self, sample: Tensor, timestep: Tensor, context: Tensor) -> Tensor:
        angles = timestep[:, None].to(sample.dtype) * self.frequencies
        time = self.time2(
            functional.silu(self.time1(torch.cat((angles.cos(), angles.sin()), dim=-1)))
        )
        x1 = self.attend1(self.down1(self.enter(sample), time), context)
        x2 = self.attend2(self.down2(self.shrink1(x1), time), context)
        x = self.attend3(self.middle1(self.shrink2(x2), time), context)
        x = self.grow2(self.larger(self.middle2(x, time)))
        x = self.attend4(self.up2(torch.cat((x, x2), dim=1), time), context)
        x = self.grow1(self.larger(x))
        x = self.attend5(self.up1(torch.cat((x, x1), dim=1), time), context)
        return self.leave(functional.silu(self.norm(x)))
