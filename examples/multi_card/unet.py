"""A small UNet with the inputs of Stable Diffusion's, exported as ONNX with an open batch.

Started by run.sh. With diffusers it is their UNet2DConditionModel, else one of a few layers.
Weights are random. Usage: python unet.py FILE
"""

import math
import sys
import warnings

import torch
from torch import Tensor, nn

TEXT = 1024
"""The width of encoder_hidden_states."""


class Block(nn.Module):
    """A convolution that knows the time, with a way around it."""

    def __init__(self, channels: int, width: int) -> None:
        super().__init__()
        self.norm = nn.GroupNorm(4, channels)
        self.first = nn.Conv2d(channels, channels, 3, padding=1)
        self.time = nn.Linear(width, channels)
        self.second = nn.Conv2d(channels, channels, 3, padding=1)

    def forward(self, x: Tensor, time: Tensor) -> Tensor:
        """The same shape, from x[batch, channels, rows, columns] and time[batch, width]."""
        h = self.first(nn.functional.silu(self.norm(x)))
        h = h + self.time(time)[:, :, None, None]
        return x + self.second(nn.functional.silu(h))


class CrossAttention(nn.Module):
    """Pixels that look at the text."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.query = nn.Linear(channels, channels)
        self.key = nn.Linear(TEXT, channels)
        self.value = nn.Linear(TEXT, channels)

    def forward(self, x: Tensor, text: Tensor) -> Tensor:
        """x[batch, channels, rows, columns], and text[batch, tokens, TEXT]."""
        pixels = x.flatten(2).transpose(1, 2)
        scores = self.query(pixels) @ self.key(text).transpose(1, 2)
        seen = torch.softmax(scores / math.sqrt(x.shape[1]), -1) @ self.value(text)
        return x + seen.transpose(1, 2).reshape(x.shape)


class Unet(nn.Module):
    """Down once, to the text, and up again."""

    def __init__(self, channels: int = 16) -> None:
        super().__init__()
        self.width = 4 * channels
        self.time = nn.Sequential(nn.Linear(channels, self.width), nn.SiLU())
        self.into = nn.Conv2d(4, channels, 3, padding=1)
        self.above = Block(channels, self.width)
        self.down = nn.Conv2d(channels, channels, 3, stride=4, padding=1)
        self.below = Block(channels, self.width)
        self.attention = CrossAttention(channels)
        self.join = nn.Conv2d(2 * channels, channels, 1)
        self.out = nn.Conv2d(channels, 4, 3, padding=1)
        angles = torch.exp(-math.log(10_000) * torch.arange(channels // 2) / (channels // 2))
        self.register_buffer("angles", angles)

    def forward(self, sample: Tensor, timestep: Tensor, encoder_hidden_states: Tensor) -> Tensor:
        """The noise of sample[batch, 4, 64, 64]."""
        turned = timestep[:, None] * self.angles
        time = self.time(torch.cat([turned.sin(), turned.cos()], -1))
        x = self.above(self.into(sample), time)
        below = self.attention(self.below(self.down(x), time), encoder_hidden_states)
        up = nn.functional.interpolate(below, scale_factor=4.0)
        return self.out(self.join(torch.cat([x, up], 1)))


class DiffusersUnet(nn.Module):
    """The UNet of diffusers, which returns its sample alone."""

    def __init__(self) -> None:
        super().__init__()
        from diffusers import UNet2DConditionModel

        self.unet = UNet2DConditionModel(
            sample_size=64,
            block_out_channels=(16, 32),
            layers_per_block=1,
            down_block_types=("DownBlock2D", "CrossAttnDownBlock2D"),
            up_block_types=("CrossAttnUpBlock2D", "UpBlock2D"),
            cross_attention_dim=TEXT,
            attention_head_dim=8,
            norm_num_groups=4,
        )

    def forward(self, sample: Tensor, timestep: Tensor, encoder_hidden_states: Tensor) -> Tensor:
        """The noise of sample[batch, 4, 64, 64]."""
        return self.unet(sample, timestep, encoder_hidden_states, return_dict=False)[0]


def small_unet() -> nn.Module:
    """That of diffusers where it is installed."""
    try:
        return DiffusersUnet()
    except ImportError:
        return Unet()


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    torch.manual_seed(0)
    sizes = {"sample": (2, 4, 64, 64), "timestep": (1,), "encoder_hidden_states": (2, 77, TEXT)}
    torch.onnx.export(
        small_unet().eval(),
        tuple(torch.ones(size) for size in sizes.values()),
        sys.argv[1],
        input_names=list(sizes),
        output_names=["out_sample"],
        dynamic_axes={name: {0: "batch"} for name in ("sample", "encoder_hidden_states")},
        opset_version=18,
        dynamo=False,
    )
