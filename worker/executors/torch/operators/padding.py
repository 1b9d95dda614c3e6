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
    mode = node.text("mode", "constant")

    def run(x: torch.Tensor, pads: Any = None, value: Any = None, axes: Any = None) -> torch.Tensor:
        given = node.integers("pads") or [] if pads is None else integers(pads)
        wanted = list(range(x.dim())) if axes is None else integers(axes)
        around = [(0, 0)] * x.dim()
        for at, axis in enumerate(wanted):
            around[axis % x.dim()] = (given[at], given[at + len(wanted)])
        if mode == "constant":
            filler = node.real("value") if value is None else value.item()
            return torch.constant_pad_nd(x, pad_list(around), filler)
        for axis, (before, behind) in enumerate(around):
            if before or behind:
                places = _places(mode, x.shape[axis], before, behind)
                x = x.index_select(axis, torch.tensor(places, dtype=torch.int64, device=x.device))
        return x

    return run


def _places(mode: str, size: int, before: int, behind: int) -> list[int]:
    """The indices of an axis with its padding."""
    wanted = range(-before, size + behind)
    if mode == "edge":
        return [min(max(at, 0), size - 1) for at in wanted]
    if mode == "wrap":
        return [at % size for at in wanted]
    if mode != "reflect":
        raise ValueError(f"mode {mode}, expected constant, reflect, edge or wrap")
    period = max(2 * (size - 1), 1)
    return [min(at % period, period - at % period) for at in wanted]


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
