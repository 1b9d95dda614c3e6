"""Padding: tensors with more elements at their ends, or fewer."""

from __future__ import annotations

from typing import Any

import torch
from torch.nn import functional

from ..operator_node import TorchNode
from ..registry import Compute, computes, integers
from ..windows import pad_list


@computes("Pad", sizes=(1, 3))
def pad(node: TorchNode) -> Compute:
    """Elements added before and behind axes; negative numbers cut them."""
    mode, constant = node.text("mode", "constant"), node.constants.get(2)
    known = node.real("value") if len(node.inputs) < 3 or not node.inputs[2] else None
    if constant is not None:
        known = constant.item()

    def run(x: torch.Tensor, pads: Any = None, value: Any = None, axes: Any = None) -> torch.Tensor:
        given = node.integers("pads") or [] if pads is None else integers(pads)
        wanted = list(range(x.dim())) if axes is None else integers(axes)
        around = [(0, 0)] * x.dim()
        for at, axis in enumerate(wanted):
            around[axis % x.dim()] = (given[at], given[at + len(wanted)])
        if mode == "constant":
            made = torch.constant_pad_nd(x, pad_list(around), known or 0)
            return made if known is not None else _filled(made, x, around, value)
        for axis, (before, behind) in enumerate(around):
            if before or behind:
                size = x.shape[axis]
                places = torch.arange(-before, size + behind, device=x.device)
                x = x.index_select(axis, _places(mode, places, size))
        return x

    return run


def _filled(
    made: torch.Tensor, x: torch.Tensor, around: list[tuple[int, int]], value: torch.Tensor
) -> torch.Tensor:
    """The padded x with a number in its padding that only the device knows."""
    own = torch.constant_pad_nd(torch.ones_like(x, dtype=torch.bool), pad_list(around), 0)
    return torch.where(own, made, value.reshape(()))


def _places(mode: str, wanted: torch.Tensor, size: int) -> torch.Tensor:
    """The indices within an axis for those of it and of its padding."""
    if mode == "edge":
        return wanted.clamp(0, size - 1)
    if mode == "wrap":
        return torch.remainder(wanted, size)
    if mode != "reflect":
        raise ValueError(f"mode {mode}, expected constant, reflect, edge or wrap")
    period = max(2 * (size - 1), 1)
    inside = torch.remainder(wanted, period)
    return torch.minimum(inside, period - inside)


@computes("CenterCropPad", sizes=(1,))
def center_crop_pad(node: TorchNode) -> Compute:
    """The middle of a tensor, or the tensor amid zeros."""
    axes = node.integers("axes")

    def run(x: torch.Tensor, shape: Any) -> torch.Tensor:
        around = [(0, 0)] * x.dim()
        for axis, size in zip(axes or range(x.dim()), integers(shape), strict=True):
            more = size - x.shape[axis]
            before = more // 2 if more > 0 else -(-more // 2)
            around[axis % x.dim()] = (before, more - before)
        return functional.pad(x, pad_list(around))

    return run
