"""Scatters: tensors with elements or slices replaced, or reduced with new ones."""

from __future__ import annotations

from math import prod
from typing import Any

import torch

from ..operator_node import TorchNode
from ..registry import Compute, computes
from ..tensors import in_order, out_of_order
from .indexing import from_start

_REDUCTIONS = {"add": "sum", "mul": "prod", "max": "amax", "min": "amin"}


def _reduced(
    x: torch.Tensor, axis: int, places: torch.Tensor, updates: torch.Tensor, reduction: str
) -> torch.Tensor:
    if x.dtype == torch.uint64 and reduction in ("max", "min"):
        return out_of_order(_reduced(in_order(x), axis, places, in_order(updates), reduction))
    return x.scatter_reduce(axis, places, updates, _REDUCTIONS[reduction])


@computes("Scatter", "ScatterElements")
def scatter_elements(node: TorchNode) -> Compute:
    """Elements along an axis, an index for each."""
    axis, reduction = node.integer("axis"), node.text("reduction", "none")

    def run(x: torch.Tensor, indices: torch.Tensor, updates: torch.Tensor) -> torch.Tensor:
        places = from_start(indices, x.shape[axis])
        if reduction == "none":
            return x.scatter(axis, places, updates)
        return _reduced(x, axis, places, updates, reduction)

    return run


@computes("ScatterND")
def scatter_nd(node: TorchNode) -> Compute:
    """Slices by tuples of indices."""
    reduction = node.text("reduction", "none")

    def run(x: torch.Tensor, indices: torch.Tensor, updates: torch.Tensor) -> torch.Tensor:
        depth = indices.shape[-1]
        if depth and reduction == "none":
            return x.index_put(indices.to(torch.int64).unbind(-1), updates)
        outer = x.shape[:depth]
        rows = x.reshape(prod(outer), -1)
        flat = torch.zeros(indices.shape[:-1], dtype=torch.int64, device=x.device)
        for at, size in enumerate(outer):
            flat = flat * size + _within(from_start(indices[..., at], size), size, at)
        places, values = flat.reshape(-1), updates.reshape(-1, rows.shape[1])
        if reduction == "none":
            return values.reshape(x.shape)
        wide = places[:, None].expand(values.shape)
        return _reduced(rows, 0, wide, values, reduction).reshape(x.shape)

    return run


def _within(places: torch.Tensor, size: int, axis: int) -> torch.Tensor:
    if bool(((places < 0) | (places >= size)).any()):
        raise IndexError(f"an index of axis {axis} is not within its {size} elements")
    return places


@computes("TensorScatter")
def tensor_scatter(node: TorchNode) -> Compute:
    """A cache with new elements from a position on, one position for each sample."""
    axis, circular = node.integer("axis", -2), node.text("mode", "linear") == "circular"

    def run(cache: torch.Tensor, update: torch.Tensor, starts: Any = None) -> torch.Tensor:
        at, length = axis % cache.dim(), cache.shape[axis]
        steps = torch.arange(update.shape[at], device=cache.device)
        first = steps.new_zeros(cache.shape[0]) if starts is None else starts.to(torch.int64)
        places = first[:, None] + steps
        places = places % length if circular else places
        shape = [1] * cache.dim()
        shape[0], shape[at] = places.shape
        return cache.scatter(at, places.reshape(shape).expand(update.shape), update)

    return run
