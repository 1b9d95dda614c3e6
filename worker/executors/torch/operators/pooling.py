"""Pools: the largest, the mean or the norm of windows or of all elements of a channel."""

from __future__ import annotations

from typing import Any

import torch
from torch.nn import functional

from ..operator_node import TorchNode
from ..registry import Compute, computes
from ..windows import SlidingWindows, pad_list, symmetric

_MAX = {1: functional.max_pool1d, 2: functional.max_pool2d, 3: functional.max_pool3d}
_MEAN: dict[int, Any] = {
    1: functional.avg_pool1d,
    2: functional.avg_pool2d,
    3: functional.avg_pool3d,
}


@computes("MaxPool", indices=(1,))
def max_pool(node: TorchNode) -> Compute:
    """The largest of each window, and its place among all elements of the tensor."""
    windows = SlidingWindows.of(node, node.integers("kernel_shape") or ())
    by_columns, rank = bool(node.integer("storage_order")), len(windows.kernel)

    def run(x: torch.Tensor) -> Any:
        sizes = x.shape[2:]
        if not x.dtype.is_floating_point:
            return _of_integers(run, x)
        pads = windows.extents(sizes)
        padding = symmetric(pads)
        if padding is None or any(2 * p > k for p, k in zip(padding, windows.kernel, strict=True)):
            padded = functional.pad(x, pad_list(pads), value=float("-inf"))
            padding = (0,) * rank
        else:
            padded, pads = x, ((0, 0),) * rank
        options = (windows.kernel, windows.strides, padding, windows.dilations)
        if not node.gives(1):
            return _MAX[rank](padded, *options)
        made, places = _MAX[rank](padded, *options, return_indices=True)
        return made, _places(places, x, padded.shape[2:], [p for p, _ in pads], by_columns)

    return run


def _of_integers(run: Compute, x: torch.Tensor) -> Any:
    """The pool of integers, exact up to 2**53."""
    made = run(x.to(torch.float64))
    return (made[0].to(x.dtype), made[1]) if isinstance(made, tuple) else made.to(x.dtype)


def _places(
    flat: torch.Tensor, x: torch.Tensor, padded: Any, before: list[int], by_columns: bool
) -> torch.Tensor:
    """Places in the whole tensor for places in the padded channel."""
    sizes = list(x.shape[2:])
    order = list(range(len(sizes)))
    places, rest = [flat] * len(sizes), flat  # torch.unravel_index copies numbers from the host
    for at in reversed(order):
        places[at], rest = rest % padded[at] - before[at], rest // padded[at]
    found = torch.zeros_like(flat)
    for at in reversed(order) if by_columns else order:
        found = found * sizes[at] + places[at]
    channels = torch.arange(x.shape[0] * x.shape[1], device=x.device).reshape(
        *x.shape[:2], *(1,) * len(sizes)
    )
    return found + channels * x[0, 0].numel()


@computes("AveragePool")
def average_pool(node: TorchNode) -> Compute:
    """The mean of each window, of padding too where count_include_pad says so."""
    windows = SlidingWindows.of(node, node.integers("kernel_shape") or ())
    counted, rank = bool(node.integer("count_include_pad")), len(windows.kernel)
    plain = set(windows.dilations) == {1}

    def run(x: torch.Tensor) -> torch.Tensor:
        sizes = x.shape[2:]
        pads = windows.paddings(sizes)
        padding = symmetric(pads) if plain and windows.extents(sizes) == pads else None
        if padding is not None and all(
            2 * p <= k for p, k in zip(padding, windows.kernel, strict=True)
        ):
            found: torch.Tensor = _MEAN[rank](
                x, windows.kernel, windows.strides, padding, False, counted
            )
            return found
        ones = torch.ones_like(x[:1, :1])
        if counted:
            ones = functional.pad(ones, pad_list(pads), value=1.0)
            rest = [
                (0, more - had)
                for (_, more), (_, had) in zip(windows.extents(sizes), pads, strict=True)
            ]
            count = _window_sum(functional.pad(ones, pad_list(rest)), windows)
        else:
            count = _window_sum(functional.pad(ones, pad_list(windows.extents(sizes))), windows)
        return _window_sum(functional.pad(x, pad_list(windows.extents(sizes))), windows) / count

    return run


def _window_sum(x: torch.Tensor, windows: SlidingWindows) -> torch.Tensor:
    """The sum of each window of a padded tensor."""
    for at, span in enumerate(windows.spans):
        x = x.unfold(2 + at, span, windows.strides[at])
    steps = tuple(slice(None, None, step) for step in windows.dilations)
    return x[(..., *steps)].sum(tuple(range(-len(windows.spans), 0)))


@computes("LpPool")
def lp_pool(node: TorchNode) -> Compute:
    """The p-norm of each window."""
    windows, p = SlidingWindows.of(node, node.integers("kernel_shape") or ()), node.integer("p", 2)

    def run(x: torch.Tensor) -> torch.Tensor:
        padded = functional.pad(x.abs() ** p, pad_list(windows.extents(x.shape[2:])))
        return _window_sum(padded, windows) ** (1 / p)

    return run


def _over_channel(x: torch.Tensor) -> tuple[int, ...]:
    return tuple(range(2, x.dim()))


@computes("GlobalAveragePool")
def global_average_pool(node: TorchNode) -> Compute:
    """The mean of each channel."""
    return lambda x: x.mean(_over_channel(x), keepdim=True)


@computes("GlobalMaxPool")
def global_max_pool(node: TorchNode) -> Compute:
    """The largest of each channel."""
    return lambda x: x.amax(_over_channel(x), keepdim=True)


@computes("GlobalLpPool")
def global_lp_pool(node: TorchNode) -> Compute:
    """The p-norm of each channel."""
    p = node.integer("p", 2)
    return lambda x: (x.abs() ** p).sum(_over_channel(x), keepdim=True) ** (1 / p)


@computes("MaxUnpool", sizes=(2,))
def max_unpool(node: TorchNode) -> Compute:
    """Each element at its place in a larger tensor of zeros."""
    windows = SlidingWindows.of(node, node.integers("kernel_shape") or ())

    def run(x: torch.Tensor, places: torch.Tensor, shape: Any = None) -> torch.Tensor:
        least = [
            (size - 1) * stride + span - sum(pads)
            for size, stride, span, pads in zip(
                x.shape[2:],
                windows.strides,
                windows.spans,
                windows.paddings(x.shape[2:]),
                strict=True,
            )
        ]
        flat = x.new_zeros(x.shape[0] * x.shape[1], *least).reshape(-1)
        flat = flat.index_put((places.reshape(-1),), x.reshape(-1))
        small = flat.reshape(*x.shape[:2], *least)
        if shape is None:
            return small
        wanted = list(shape) if isinstance(shape, tuple) else shape.tolist()
        rest = [(0, size - had) for size, had in zip(wanted[2:], least, strict=True)]
        return functional.pad(small, pad_list(rest))

    return run
