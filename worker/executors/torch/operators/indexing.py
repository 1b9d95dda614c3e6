"""Gathers: elements and slices chosen by indices, which may count from the end."""

from __future__ import annotations

from typing import Any

import torch

from ..operator_node import TorchNode
from ..registry import Compute, computes, integers


def from_start(indices: torch.Tensor, size: int) -> torch.Tensor:
    """Indices of int64 that count from the start."""
    indices = indices.to(torch.int64)
    return torch.where(indices < 0, indices + size, indices)


@computes("Gather")
def gather(node: TorchNode) -> Compute:
    """Slices along an axis."""
    axis, known = node.integer("axis"), node.constants.get(1)
    if known is not None and known.dim() == 0:
        place = int(known.item())
        return lambda x, indices: x.select(axis, place)

    def run(x: torch.Tensor, indices: torch.Tensor) -> torch.Tensor:
        at = axis % x.dim()
        chosen = x.index_select(at, from_start(indices, x.shape[at]).reshape(-1))
        return chosen.reshape((*x.shape[:at], *indices.shape, *x.shape[at + 1 :]))

    return run


@computes("GatherElements")
def gather_elements(node: TorchNode) -> Compute:
    """Elements along an axis, an index for each."""
    axis = node.integer("axis")
    return lambda x, indices: torch.gather(x, axis, from_start(indices, x.shape[axis]))


@computes("GatherND")
def gather_nd(node: TorchNode) -> Compute:
    """Slices by tuples of indices, behind dimensions of a batch."""
    batch = node.integer("batch_dims")

    def run(x: torch.Tensor, indices: torch.Tensor) -> torch.Tensor:
        outer, depth = x.shape[:batch], indices.shape[-1]
        flat = x.reshape(-1, *x.shape[batch:])
        places = indices.reshape(flat.shape[0], -1, depth).to(torch.int64)
        rows = torch.arange(flat.shape[0], device=x.device)[:, None].expand(places.shape[:2])
        chosen = flat[(rows, *places.unbind(-1))]
        return chosen.reshape((*outer, *indices.shape[batch:-1], *x.shape[batch + depth :]))

    return run


@computes("Compress", of_data=True)
def compress(node: TorchNode) -> Compute:
    """Slices of an axis, or elements, where a condition holds."""
    axis = node.integer("axis") if node.has("axis") else None

    def run(x: torch.Tensor, condition: torch.Tensor) -> torch.Tensor:
        places = torch.nonzero(condition).reshape(-1)
        return x.reshape(-1)[places] if axis is None else x.index_select(axis, places)

    return run


@computes("NonZero", of_data=True)
def non_zero(node: TorchNode) -> Compute:
    """The indices of all elements that are not zero, a row for each dimension."""
    return lambda x: torch.nonzero(x if x.dim() else x.reshape(1)).t()


@computes("OneHot", sizes=(1,))
def one_hot(node: TorchNode) -> Compute:
    """On at an index along a new axis, off elsewhere."""
    axis = node.integer("axis", -1)

    def run(indices: torch.Tensor, depth: Any, values: torch.Tensor) -> torch.Tensor:
        count = int(integers(depth)[0])
        places = torch.remainder(indices.to(torch.int64), count)
        inside = (indices >= -count) & (indices < count)
        at = axis % (indices.dim() + 1)
        row = torch.arange(count, device=indices.device)
        row = row.reshape(-1, *(1,) * (indices.dim() - at))
        hot = (places.unsqueeze(at) == row) & inside.unsqueeze(at)
        return torch.where(hot, values[1], values[0])

    return run


@computes("ReverseSequence")
def reverse_sequence(node: TorchNode) -> Compute:
    """The first elements of each sequence of a batch, reversed."""
    time, batch = node.integer("time_axis"), node.integer("batch_axis", 1)

    def run(x: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        moved = x.movedim((batch, time), (0, 1))
        steps = torch.arange(moved.shape[1], device=x.device)[None, :]
        ends = lengths.to(torch.int64)[:, None]
        places = torch.where(steps < ends, ends - 1 - steps, steps)
        rows = torch.arange(moved.shape[0], device=x.device)[:, None]
        return moved[rows, places].movedim((0, 1), (batch, time))

    return run
