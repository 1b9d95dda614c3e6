"""Sorting: the largest elements, and those that differ."""

from __future__ import annotations

from typing import Any

import torch

from ..operator_node import TorchNode
from ..registry import Compute, computes, integers


@computes("TopK", sizes=(1,), indices=(1,), ordered=True)
def top_k(node: TorchNode) -> Compute:
    """The largest or smallest elements along an axis, sorted; the first of equal ones first."""
    axis, largest = node.integer("axis", -1), bool(node.integer("largest", 1))

    def run(x: torch.Tensor, count: Any) -> tuple[torch.Tensor, torch.Tensor]:
        values, places = torch.sort(x, dim=axis, descending=largest, stable=True)
        k = int(integers(count)[0])
        return values.narrow(axis, 0, k), places.narrow(axis, 0, k)

    return run


@computes("Unique", of_data=True, indices=(1, 2, 3), ordered=True)
def unique(node: TorchNode) -> Compute:
    """The elements that differ, or the slices of an axis; their first places and their counts."""
    axis = node.integer("axis") if node.has("axis") else None
    ordered = bool(node.integer("sorted", 1))

    def run(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        flat = x.reshape(-1) if axis is None else x
        dim = 0 if axis is None else axis
        values, inverse, counts = torch.unique(
            flat, return_inverse=True, return_counts=True, dim=dim
        )
        places = torch.arange(inverse.numel(), device=x.device)
        first = torch.full_like(counts, inverse.numel())
        first = first.scatter_reduce(0, inverse, places, "amin")
        if not ordered:
            order = torch.argsort(first)
            values, first, counts = values.index_select(dim, order), first[order], counts[order]
            inverse = torch.argsort(order)[inverse]
        return values, first, inverse, counts

    return run
