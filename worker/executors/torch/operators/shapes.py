"""Shapes: views and rearrangements of tensors, and their sizes."""

from __future__ import annotations

from math import prod
from typing import Any

import torch

from ..operator_node import TorchNode
from ..registry import Compute, computes, integers
from ..tensors import integer_tensor


@computes("Reshape", sizes=(1,))
def reshape(node: TorchNode) -> Compute:
    """The elements in another shape: 0 keeps a dimension, unless allowzero; -1 takes the rest."""
    zeros_stay = bool(node.integer("allowzero"))

    def run(x: torch.Tensor, shape: Any) -> torch.Tensor:
        wanted = integers(shape)
        if not zeros_stay and 0 in wanted:
            wanted = [x.shape[at] if size == 0 else size for at, size in enumerate(wanted)]
        if -1 in wanted and not x.numel():
            at = wanted.index(-1)
            rest = prod(size for other, size in enumerate(wanted) if other != at)
            wanted[at] = 0 if rest == 0 else x.numel() // rest
        return x.reshape(wanted)

    return run


@computes("Flatten")
def flatten(node: TorchNode) -> Compute:
    """A matrix: the dimensions before an axis, and those from it on."""
    axis = node.integer("axis", 1)

    def run(x: torch.Tensor) -> torch.Tensor:
        start = axis + x.dim() if axis < 0 else axis
        return x.reshape(prod(x.shape[:start]), prod(x.shape[start:]))

    return run


def _axes(node: TorchNode, given: Any) -> list[int] | None:
    """The axes: an input since opset 13, an attribute before."""
    return node.integers("axes") if given is None else integers(given)


@computes("Squeeze", sizes=(1,))
def squeeze(node: TorchNode) -> Compute:
    """The tensor without dimensions of one element, or without those at `axes`."""

    def run(x: torch.Tensor, axes: Any = None) -> torch.Tensor:
        dropped = _axes(node, axes)
        if dropped is None:
            return x.squeeze()
        for axis in dropped:
            if x.shape[axis] != 1:
                raise ValueError(f"axis {axis} of {tuple(x.shape)} is {x.shape[axis]}, expected 1")
        return x.squeeze(tuple(dropped))

    return run


@computes("Unsqueeze", sizes=(1,))
def unsqueeze(node: TorchNode) -> Compute:
    """The tensor with new dimensions of one element at `axes` of the result."""

    def run(x: torch.Tensor, axes: Any = None) -> torch.Tensor:
        added = _axes(node, axes) or []
        rank = x.dim() + len(added)
        for axis in sorted(axis % rank for axis in added):
            x = x.unsqueeze(axis)
        return x

    return run


@computes("Transpose")
def transpose(node: TorchNode) -> Compute:
    """The dimensions in another order; reversed where none is given."""
    order = node.integers("perm")
    if order is None:
        return lambda x: x.permute(*reversed(range(x.dim())))
    return lambda x: x.permute(order)


@computes("Expand", sizes=(1,))
def expand(node: TorchNode) -> Compute:
    """The tensor broadcast with a shape."""
    return lambda x, shape: x.expand(torch.broadcast_shapes(x.shape, integers(shape)))


@computes("Tile", sizes=(1,))
def tile(node: TorchNode) -> Compute:
    """The tensor repeated along each axis."""
    return lambda x, repeats: x.repeat(integers(repeats))


@computes("Concat")
def concat(node: TorchNode) -> Compute:
    """The tensors behind each other."""
    axis = node.integer("axis")
    return lambda *inputs: torch.cat(inputs, axis) if len(inputs) > 1 else inputs[0]


@computes("Split", sizes=(1,))
def split(node: TorchNode) -> Compute:
    """Parts along an axis, of given sizes or of equal ones; the last may be smaller."""
    axis, stated = node.integer("axis"), node.integers("split")
    count = node.integer("num_outputs", len(node.outputs))

    def run(x: torch.Tensor, sizes: Any = None) -> tuple[torch.Tensor, ...]:
        listed = stated if sizes is None else integers(sizes)
        if listed is None:
            each = -(-x.shape[axis] // count)
            listed = [min(each, max(x.shape[axis] - at * each, 0)) for at in range(count)]
        return tuple(torch.split(x, listed, axis))

    return run


@computes("Slice", sizes=(1, 2, 3, 4))
def slices(node: TorchNode) -> Compute:
    """A part along each of some axes, by start, end and step; a step may be negative."""

    def run(x: torch.Tensor, *given: Any) -> torch.Tensor:
        listed: list[Any] = [*map(_optional, given), *(None,) * (4 - len(given))]
        starts, ends, axes, steps = listed
        starts = starts if starts is not None else node.integers("starts")
        ends = ends if ends is not None else node.integers("ends")
        axes = axes if axes is not None else node.integers("axes") or list(range(len(starts or ())))
        for start, end, axis, step in zip(
            starts or (), ends or (), axes, steps or (1,) * len(axes), strict=True
        ):
            x = _part(x, axis % x.dim(), slice(start, end, step))
        return x

    return run


def _optional(given: Any) -> list[int] | None:
    return None if given is None else integers(given)


def _part(x: torch.Tensor, axis: int, wanted: slice) -> torch.Tensor:
    size = x.shape[axis]
    step = wanted.step
    if step > 0:
        start, end, _ = wanted.indices(size)
        part = x.narrow(axis, start, max(end - start, 0))
        return part if step == 1 else part[(slice(None),) * axis + (slice(None, None, step),)]
    last = wanted.stop if wanted.stop >= -size else -size - 1
    chosen = range(size)[wanted.start : None if last < -size else last : step]
    if not chosen:
        return x.narrow(axis, 0, 0)
    part = x.narrow(axis, chosen[-1], chosen[0] - chosen[-1] + 1)
    return part[(slice(None),) * axis + (slice(None, None, -step),)].flip(axis)


@computes("Shape")
def shape_of(node: TorchNode) -> Compute:
    """The sizes of the dimensions, or of some that follow each other."""
    start, end = node.integer("start"), node.integer("end", 1 << 30)
    return lambda x: integer_tensor(x.shape[start:end], torch.int64, node.device)


@computes("Size")
def size_of(node: TorchNode) -> Compute:
    """The number of elements."""
    return lambda x: torch.full((), x.numel(), dtype=torch.int64, device=node.device)


@computes("Trilu", sizes=(1,))
def trilu(node: TorchNode) -> Compute:
    """The triangle above or below a diagonal, zero elsewhere."""
    keep = torch.triu if node.integer("upper", 1) else torch.tril
    return lambda x, k=None: keep(x, 0 if k is None else integers(k)[0])


@computes("DepthToSpace")
def depth_to_space(node: TorchNode) -> Compute:
    """Channels as blocks of pixels."""
    size, column_first = node.integer("blocksize"), node.text("mode", "DCR") == "CRD"

    def run(x: torch.Tensor) -> torch.Tensor:
        n, c, h, w = x.shape
        if column_first:
            blocks = x.reshape(n, c // size**2, size, size, h, w).permute(0, 1, 4, 2, 5, 3)
        else:
            blocks = x.reshape(n, size, size, c // size**2, h, w).permute(0, 3, 4, 1, 5, 2)
        return blocks.reshape(n, c // size**2, h * size, w * size)

    return run


@computes("SpaceToDepth")
def space_to_depth(node: TorchNode) -> Compute:
    """Blocks of pixels as channels."""
    size = node.integer("blocksize")
    order = (0, 1, 3, 5, 2, 4) if node.text("mode", "DCR") == "CRD" else (0, 3, 5, 1, 2, 4)

    def run(x: torch.Tensor) -> torch.Tensor:
        n, c, h, w = x.shape
        blocks = x.reshape(n, c, h // size, size, w // size, size).permute(order)
        return blocks.reshape(n, c * size**2, h // size, w // size)

    return run
