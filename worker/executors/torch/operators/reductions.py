"""Reductions: sums, extremes, norms, and the places of extremes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import torch

from ..numbers.unsigned import quotient
from ..operator_node import TorchNode
from ..registry import Compute, computes, integers

Reduce = Callable[[torch.Tensor, Sequence[int], bool], torch.Tensor]


def _reduction(name: str, ordered: bool = False) -> Callable[[Reduce], Reduce]:
    """Register a reduction over axes, which are an input or an attribute; all by default."""

    def register(function: Reduce) -> Reduce:
        def prepare(node: TorchNode) -> Compute:
            keep, stated = bool(node.integer("keepdims", 1)), node.integers("axes")
            none_is_none = bool(node.integer("noop_with_empty_axes"))

            def run(x: torch.Tensor, axes: Any = None) -> torch.Tensor:
                listed = stated if axes is None else integers(axes)
                if not listed:
                    listed = [] if none_is_none else list(range(x.dim()))
                return function(x, [axis % x.dim() for axis in listed], keep)

            return run

        computes(name, sizes=(1,), ordered=ordered)(prepare)
        return function

    return register


@_reduction("ReduceSum")
def reduce_sum(x: torch.Tensor, axes: Sequence[int], keep: bool) -> torch.Tensor:
    """Sum."""
    return torch.sum(x, axes, keepdim=keep, dtype=x.dtype) if axes else x


@_reduction("ReduceMean")
def reduce_mean(x: torch.Tensor, axes: Sequence[int], keep: bool) -> torch.Tensor:
    """Mean; of integers towards zero."""
    if not axes:
        return x
    if x.dtype.is_floating_point:
        return torch.mean(x, axes, keepdim=keep)
    count = prod(x.shape[axis] for axis in axes)
    found = torch.sum(x, axes, keepdim=keep, dtype=torch.int64)
    if x.dtype == torch.uint64:
        return quotient(found.view(x.dtype), torch.full_like(found, count).view(x.dtype))
    return torch.div(found, count, rounding_mode="trunc").to(x.dtype)


@_reduction("ReduceMax", ordered=True)
def reduce_max(x: torch.Tensor, axes: Sequence[int], keep: bool) -> torch.Tensor:
    """Largest; of nothing, the least that there is."""
    return _extreme(torch.amax, x, axes, keep, False)


@_reduction("ReduceMin", ordered=True)
def reduce_min(x: torch.Tensor, axes: Sequence[int], keep: bool) -> torch.Tensor:
    """Smallest; of nothing, the most that there is."""
    return _extreme(torch.amin, x, axes, keep, True)


def _extreme(
    function: Any, x: torch.Tensor, axes: Sequence[int], keep: bool, most: bool
) -> torch.Tensor:
    if not axes:
        return x
    if all(x.shape[axis] for axis in axes):
        found: torch.Tensor = function(x, axes, keepdim=keep)
        return found
    if x.dtype == torch.bool:
        empty: Any = most
    elif x.dtype.is_floating_point:
        empty = float("inf" if most else "-inf")
    else:
        empty = torch.iinfo(x.dtype).max if most else torch.iinfo(x.dtype).min
    return torch.full_like(torch.sum(x, axes, keepdim=keep, dtype=x.dtype), empty)


@_reduction("ReduceProd")
def reduce_prod(x: torch.Tensor, axes: Sequence[int], keep: bool) -> torch.Tensor:
    """Product."""
    for axis in sorted(axes, reverse=True):
        x = torch.prod(x, axis, keepdim=keep, dtype=x.dtype)
    return x


@_reduction("ReduceL1")
def reduce_l1(x: torch.Tensor, axes: Sequence[int], keep: bool) -> torch.Tensor:
    """Sum of absolute values."""
    return reduce_sum(x.abs() if x.dtype.is_signed else x, axes, keep)


@_reduction("ReduceL2")
def reduce_l2(x: torch.Tensor, axes: Sequence[int], keep: bool) -> torch.Tensor:
    """Root of the sum of squares."""
    if x.dtype.is_floating_point:
        return torch.sqrt(reduce_sum(x * x, axes, keep))
    wide = x.to(torch.float64)
    return torch.sqrt(reduce_sum(wide * wide, axes, keep)).to(x.dtype)


@_reduction("ReduceSumSquare")
def reduce_sum_square(x: torch.Tensor, axes: Sequence[int], keep: bool) -> torch.Tensor:
    """Sum of squares."""
    return reduce_sum(x * x, axes, keep)


@_reduction("ReduceLogSum")
def reduce_log_sum(x: torch.Tensor, axes: Sequence[int], keep: bool) -> torch.Tensor:
    """Logarithm of the sum."""
    return torch.log(reduce_sum(x, axes, keep)).to(x.dtype)


@_reduction("ReduceLogSumExp")
def reduce_log_sum_exp(x: torch.Tensor, axes: Sequence[int], keep: bool) -> torch.Tensor:
    """Logarithm of the sum of exponentials."""
    return torch.logsumexp(x, axes, keepdim=keep).to(x.dtype) if axes else x


def _place(node: TorchNode, function: Any) -> Compute:
    axis, keep = node.integer("axis"), bool(node.integer("keepdims", 1))
    last = bool(node.integer("select_last_index"))

    def run(x: torch.Tensor) -> torch.Tensor:
        if not last:
            return function(x, axis, keepdim=keep)
        return x.shape[axis] - 1 - function(x.flip(axis), axis, keepdim=keep)

    return run


@computes("ArgMax", indices=(0,), ordered=True)
def arg_max(node: TorchNode) -> Compute:
    """The place of the largest along an axis: the first, or the last of equal ones."""
    return _place(node, torch.argmax)


@computes("ArgMin", indices=(0,), ordered=True)
def arg_min(node: TorchNode) -> Compute:
    """The place of the smallest along an axis: the first, or the last of equal ones."""
    return _place(node, torch.argmin)


def _running(node: TorchNode, function: Any, neutral: int) -> Compute:
    """A running total along an axis, from either side, without or with the number itself."""
    exclusive, reverse = node.integer("exclusive"), node.integer("reverse")

    def run(x: torch.Tensor, axes: Any) -> torch.Tensor:
        axis = integers(axes)[0] % x.dim()
        x = x.flip(axis) if reverse else x
        if exclusive:
            first = torch.full_like(x.narrow(axis, 0, min(1, x.shape[axis])), neutral)
            x = torch.cat((first, x.narrow(axis, 0, max(x.shape[axis] - 1, 0))), axis)
        found: torch.Tensor = function(x, axis, dtype=x.dtype)
        return found.flip(axis) if reverse else found

    return run


@computes("CumSum", sizes=(1,))
def cum_sum(node: TorchNode) -> Compute:
    """Running sum."""
    return _running(node, torch.cumsum, 0)


@computes("CumProd", sizes=(1,))
def cum_prod(node: TorchNode) -> Compute:
    """Running product."""
    return _running(node, torch.cumprod, 1)
