"""Convolution: of one to three axes, and its transpose."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch.nn import functional

from ..operator_node import TorchNode
from ..registry import Compute, computes
from ..windows import SlidingWindows, pad_list, symmetric

_CONVOLUTIONS = {1: torch.conv1d, 2: torch.conv2d, 3: torch.conv3d}
_TRANSPOSED = {1: torch.conv_transpose1d, 2: torch.conv_transpose2d, 3: torch.conv_transpose3d}


@computes("Conv")
def conv(node: TorchNode) -> Compute:
    """Convolution, with padding of either side and groups."""
    return Convolution(node)


class Convolution:
    """A convolution; it keeps the windows of the last shape of its weight."""

    def __init__(self, node: TorchNode) -> None:
        self._node = node
        self._groups = node.integer("group", 1)
        self._windows: SlidingWindows | None = None

    def __call__(self, x: torch.Tensor, w: torch.Tensor, bias: Any = None) -> torch.Tensor:
        """The convolution of x with w."""
        windows = self._windows
        if windows is None or windows.kernel != w.shape[2:]:
            windows = self._windows = SlidingWindows.of(self._node, w.shape[2:])
        pads = windows.paddings(x.shape[2:])
        padding = symmetric(pads)
        if padding is None:
            x, padding = functional.pad(x, pad_list(pads)), (0,) * len(pads)
        function = _CONVOLUTIONS[len(pads)]
        found: torch.Tensor = function(
            x, w, bias, windows.strides, padding, windows.dilations, self._groups
        )
        return found


@computes("ConvTranspose")
def conv_transpose(node: TorchNode) -> Compute:
    """Transposed convolution; the size of its output may be stated."""
    groups = node.integer("group", 1)

    def run(x: torch.Tensor, w: torch.Tensor, bias: Any = None) -> torch.Tensor:
        windows = SlidingWindows.of(node, w.shape[2:])
        rank = len(windows.kernel)
        made = _TRANSPOSED[rank](x, w, None, windows.strides, 0, 0, groups, windows.dilations)
        made = functional.pad(made, pad_list(_cuts(node, windows, x.shape[2:])))
        return made if bias is None else made + bias.reshape(-1, *(1,) * rank)

    return run


def _cuts(node: TorchNode, windows: SlidingWindows, sizes: Sequence[int]) -> list[tuple[int, int]]:
    """The elements to add before and behind each axis of the full result; negative ones are cut."""
    rank = len(sizes)
    extra = node.integers("output_padding") or [0] * rank
    wanted = node.integers("output_shape")
    pairs = zip(sizes, windows.strides, windows.spans, strict=True)
    full = [(size - 1) * stride + span for size, stride, span in pairs]
    if wanted is None and windows.pads is not None:
        pads = windows.paddings(sizes)
        return [
            (-before, more - behind) for (before, behind), more in zip(pads, extra, strict=True)
        ]
    if wanted is None:
        wanted = [size * stride for size, stride in zip(sizes, windows.strides, strict=True)]
    cuts = []
    for at in range(rank):
        total = full[at] + extra[at] - wanted[-rank + at]
        half = total // 2
        before = half if windows.auto_pad == "SAME_UPPER" else total - half
        cuts.append((-before, wanted[-rank + at] - full[at] + before))
    return cuts


@computes("CausalConvWithState")
def causal_conv(node: TorchNode) -> Compute:
    """Convolution of each channel with what came before; the state has the last elements."""
    activation = node.text("activation", "none")
    if activation not in ("none", "silu", "swish"):
        raise ValueError(f"activation {activation}, expected none, silu or swish")

    def run(x: torch.Tensor, w: torch.Tensor, bias: Any = None, past: Any = None) -> object:
        kept = w.shape[-1] - 1
        if past is None:
            past = x.new_zeros(*x.shape[:2], kept)
        joined = torch.cat((past, x), -1)
        made = torch.conv1d(joined, w, bias, groups=x.shape[1])
        made = made if activation == "none" else functional.silu(made)
        return made, joined[..., joined.shape[-1] - kept :]

    return run
