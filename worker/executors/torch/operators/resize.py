"""Resize: images of any number of axes, by the nearest elements or by weights of some of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import floor
from typing import Any

import numpy as np
import torch
from torch.nn import functional

from ..operator_node import TorchNode
from ..registry import Compute, computes

Weights = tuple[torch.Tensor, torch.Tensor, torch.Tensor | None]
"""Indices and weights [size, neighbours] of an axis, and where its result is outside."""
_MOST = 64
"""Axes whose weights a node keeps: as long as it lives, as captured runs read them."""
_HOST = torch.device("cpu")
_FAST = {"linear": {1: "linear", 2: "bilinear", 3: "trilinear"}, "cubic": {2: "bicubic"}}


@dataclass(frozen=True, slots=True)
class AxisScale:
    """One axis: its sizes, its scale, and the part of it that tf_crop_and_resize takes."""

    before: int
    after: int
    scale: float
    start: float = 0.0
    end: float = 1.0

    def places(self, mode: str, device: torch.device) -> torch.Tensor:
        """Where in the input the elements of the result lie."""
        at = torch.arange(self.after, dtype=torch.float64, device=device)
        width = self.scale * self.before
        if mode == "align_corners":
            return at * 0 if width == 1 else at * (self.before - 1) / (width - 1)
        if mode == "asymmetric":
            return at / self.scale
        if mode == "tf_crop_and_resize":
            span, first = self.end - self.start, self.start * (self.before - 1)
            if width == 1:
                return at * 0 + span * (self.before - 1) / 2 + first
            return at * span * (self.before - 1) / (width - 1) + first
        if mode == "pytorch_half_pixel" and width == 1:
            return at * 0
        moved = 0.0
        if mode == "half_pixel_symmetric":
            moved = self.before / 2 * (1 - self.after / width)
        elif mode not in ("half_pixel", "pytorch_half_pixel"):
            raise ValueError(f"coordinate_transformation_mode {mode} is unknown")
        return moved + (at + 0.5) / self.scale - 0.5


class Resizing:
    """The attributes of a node, and the indices and weights that they give an axis."""

    def __init__(self, node: TorchNode) -> None:
        self.mode = node.text("mode", "nearest")
        self.nearest = node.text("nearest_mode", "round_prefer_floor")
        self.coordinates = node.text("coordinate_transformation_mode", "half_pixel")
        self.cubic = node.real("cubic_coeff_a", -0.75)
        self.antialias = bool(node.integer("antialias"))
        self.inside_only = bool(node.integer("exclude_outside"))
        self.axes = node.integers("axes")
        self.policy = node.text("keep_aspect_ratio_policy", "stretch")
        self.outside = node.real("extrapolation_value")
        if node.op_type == "Upsample":
            self.coordinates, self.nearest = "asymmetric", "floor"
        self._kept: dict[tuple[AxisScale, torch.device], Weights] = {}

    def weights(self, axis: AxisScale, device: torch.device) -> Weights:
        """The indices and weights of an axis on a device; the first run copies them there.

        Those of more axes than are kept are made by the device itself, as a captured run cannot
        copy.
        """
        kept = self._kept.get((axis, device))
        if kept is None and len(self._kept) >= _MOST:
            return self._weights(axis, device)
        if kept is None:
            near, kernel, outside = self._weights(axis, _HOST)
            there = None if outside is None else outside.to(device)
            kept = self._kept[axis, device] = (near.to(device), kernel.to(device), there)
        return kept

    def _weights(self, axis: AxisScale, device: torch.device) -> Weights:
        places = axis.places(self.coordinates, device)
        outside = None
        if self.coordinates == "tf_crop_and_resize":
            outside = (places < 0) | (places > axis.before - 1)
        if self.mode == "nearest":
            found = self._rounded(places).to(torch.int64)[:, None]
            return found.clamp(0, axis.before - 1), torch.ones(1, 1, device=device), outside
        shrink = min(axis.scale, 1.0) if self.antialias else 1.0
        reach = 1 if self.mode == "linear" else 2
        first = floor(-reach / shrink) + 1
        base = torch.floor(places)
        steps = torch.arange(first, 2 - first, dtype=torch.float64, device=device)
        near = base[:, None] + steps
        kernel = self._kernel((near - places[:, None]) * shrink)
        inside = (near >= 0) & (near < axis.before)
        if self.inside_only:
            kernel = torch.where(inside, kernel, torch.zeros_like(kernel))
        if self.inside_only or self.antialias:
            kernel = kernel / kernel.sum(1, keepdim=True)
        return near.to(torch.int64).clamp(0, axis.before - 1), kernel, outside

    def _rounded(self, places: torch.Tensor) -> torch.Tensor:
        """The nearest elements, by the rule for those between two."""
        if self.nearest == "round_prefer_floor":
            return torch.ceil(places - 0.5)
        if self.nearest == "round_prefer_ceil":
            return torch.floor(places + 0.5)
        return torch.floor(places) if self.nearest == "floor" else torch.ceil(places)

    def _kernel(self, distance: torch.Tensor) -> torch.Tensor:
        """The weights of elements at a distance: linear, or cubic with `cubic_coeff_a`."""
        x, a = distance.abs(), self.cubic
        if self.mode == "linear":
            return torch.clamp(1 - x, min=0)
        near = ((a + 2) * x - (a + 3)) * x * x + 1
        far = ((a * x - 5 * a) * x + 8 * a) * x - 4 * a
        return torch.where(x <= 1, near, torch.where(x < 2, far, torch.zeros_like(x)))

    def scales(self, x: torch.Tensor, roi: Any, scales: Any, sizes: Any) -> list[AxisScale | None]:
        """The scale of each axis; None for one that stays as it is."""
        axes = [axis % x.dim() for axis in self.axes or range(x.dim())]
        found: list[AxisScale | None] = [None] * x.dim()
        factors, after = self._factors([x.shape[axis] for axis in axes], scales, sizes)
        for at, axis in enumerate(axes):
            ends = (0.0, 1.0) if not roi else (roi[at], roi[at + len(axes)])
            same = after[at] == x.shape[axis] and factors[at] == 1 and ends == (0.0, 1.0)
            if not same:
                found[axis] = AxisScale(x.shape[axis], after[at], factors[at], *ends)
        return found

    def _factors(
        self, before: Sequence[int], scales: Any, sizes: Any
    ) -> tuple[list[float], list[int]]:
        """The scale and the new size of each axis."""
        if not sizes:
            return list(scales), [_shrunk(n, s) for n, s in zip(before, scales, strict=True)]
        factors = [size / n for size, n in zip(sizes, before, strict=True)]
        if self.policy == "stretch":
            return factors, list(sizes)
        one = min(factors) if self.policy == "not_larger" else max(factors)
        return [one] * len(before), [floor(one * n + 0.5) for n in before]

    def fast_mode(self, found: Sequence[AxisScale | None]) -> str | None:
        """The mode of torch's own interpolation, where it computes the same."""
        scaled = [one for one in found if one is not None]
        plain = all(one.after == one.scale * one.before for one in scaled)
        corners = self.coordinates == "align_corners" and all(one.after > 1 for one in scaled)
        usual = self.coordinates == "half_pixel" or corners
        usual |= self.coordinates == "pytorch_half_pixel" and all(one.after > 1 for one in scaled)
        if not plain or not usual or self.antialias or self.inside_only or self.cubic != -0.75:
            return None
        return _FAST.get(self.mode, {}).get(len(found) - 2) if found[:2] == [None, None] else None


def _shrunk(size: int, scale: float) -> int:
    """The size after a scale: their product in float32, as the shapes of a model have it."""
    return int(np.float32(size) * np.float32(scale))


@computes("Resize", "Upsample", sizes=(1, 2, 3))
def resize(node: TorchNode) -> Compute:
    """A tensor with other sizes."""
    resizing = Resizing(node)
    before_eleven = node.op_type == "Upsample" or node.opset < 11

    def run(x: torch.Tensor, *given: Any) -> torch.Tensor:
        listed = [_numbers(one) for one in (*given, None, None, None)[:3]]
        roi, scales, sizes = (None, listed[0], None) if before_eleven else listed
        found = resizing.scales(x, roi, scales or node.reals("scales"), sizes)
        fast = resizing.fast_mode(found)
        if fast and x.dtype == torch.float32:
            wanted = [one.after if one else n for one, n in zip(found, x.shape, strict=True)][2:]
            corners = resizing.coordinates == "align_corners"
            return functional.interpolate(x, wanted, mode=fast, align_corners=corners)
        for axis, one in enumerate(found):
            if one is not None:
                x = _along(x, axis, *resizing.weights(one, x.device), resizing.outside)
        return x

    return run


def _numbers(value: Any) -> list[float] | None:
    if value is None:
        return None
    return list(value) if isinstance(value, tuple) else value.reshape(-1).tolist()


def _along(
    x: torch.Tensor,
    axis: int,
    near: torch.Tensor,
    weights: torch.Tensor,
    outside: torch.Tensor | None,
    filler: float,
) -> torch.Tensor:
    """The weighted sum of neighbours along an axis."""
    shape = [1] * x.dim()
    shape[axis] = -1
    if near.shape[1] == 1:
        made = x.index_select(axis, near[:, 0])
    else:
        wide = x if x.dtype.is_floating_point else x.to(torch.float32)
        made = torch.zeros((), dtype=wide.dtype, device=x.device)
        for places, weight in zip(near.unbind(1), weights.unbind(1), strict=True):
            factor = weight.to(wide.dtype).reshape(shape)
            made = made + wide.index_select(axis, places) * factor
        made = made if wide is x else torch.round(made).to(x.dtype)
    if outside is None:
        return made
    return made.masked_fill(outside.reshape(shape), filler)
