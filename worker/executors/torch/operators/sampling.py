"""Sampling: images read at computed places, between their elements too."""

from __future__ import annotations

from math import ceil
from typing import Any

import torch
from torch.nn import functional

from ..operator_node import TorchNode
from ..registry import Compute, computes, integers
from ..tensors import integer_tensor

_MODES = {
    "linear": "bilinear",
    "bilinear": "bilinear",
    "nearest": "nearest",
    "cubic": "bicubic",
    "bicubic": "bicubic",
}


@computes("GridSample")
def grid_sample(node: TorchNode) -> Compute:
    """Elements at the places of a grid, which counts from -1 to 1."""
    mode, padding = _MODES[node.text("mode", "linear")], node.text("padding_mode", "zeros")
    corners = bool(node.integer("align_corners"))
    return lambda x, grid: functional.grid_sample(x, grid.to(x.dtype), mode, padding, corners)


@computes("AffineGrid", sizes=(1,))
def affine_grid(node: TorchNode) -> Compute:
    """The grid of an affine transformation of each image."""
    corners = bool(node.integer("align_corners"))
    return lambda theta, size: functional.affine_grid(theta, integers(size), corners)


@computes("RoiAlign")
def roi_align(node: TorchNode) -> Compute:
    """The mean or the largest of points in each cell of regions of images."""
    return RoiAlign(node)


class RoiAlign:
    """The attributes of a node RoiAlign, and its computation."""

    def __init__(self, node: TorchNode) -> None:
        default = "half_pixel" if node.opset >= 16 else "output_half_pixel"
        half = node.text("coordinate_transformation_mode", default) == "half_pixel"
        self._offset = 0.5 if half else 0.0
        self._largest = node.text("mode", "avg") == "max"
        self._height, self._width = (
            node.integer(name, 1) for name in ("output_height", "output_width")
        )
        self._ratio = node.integer("sampling_ratio")
        self._scale = node.real("spatial_scale", 1.0)

    def __call__(self, x: torch.Tensor, rois: torch.Tensor, batch: torch.Tensor) -> torch.Tensor:
        """[regions, channels, height, width]."""
        cells = [
            self._cells(x[image], region)
            for image, region in zip(batch.tolist(), rois.tolist(), strict=True)
        ]
        if not cells:
            return x.new_zeros(0, x.shape[1], self._height, self._width)
        return torch.stack(cells)

    def _cells(self, image: torch.Tensor, region: list[float]) -> torch.Tensor:
        left, top, right, bottom = (end * self._scale - self._offset for end in region)
        width, height = right - left, bottom - top
        if not self._offset:
            width, height = max(width, 1.0), max(height, 1.0)
        rows, down = _points(top, height, self._height, self._ratio, image)
        columns, across = _points(left, width, self._width, self._ratio, image)
        parts = _corners(image, rows, columns)
        shape = (image.shape[0], self._height, down, self._width, across)
        if self._largest:
            largest = torch.stack(parts).amax(0)
            return largest.reshape(shape).amax((2, 4))
        total = sum(parts[1:], parts[0]).reshape(shape).sum((2, 4))
        return total / max(down * across, 1)


def _points(
    start: float, size: float, cells: int, ratio: int, image: torch.Tensor
) -> tuple[torch.Tensor, int]:
    """The coordinates of the points of all cells along an axis, and how many each cell has."""
    each = ratio if ratio > 0 else ceil(size / cells)
    steps = torch.arange(cells * each, dtype=image.dtype, device=image.device)
    return start + (steps + 0.5) * (size / cells / max(each, 1)), each


def _corners(image: torch.Tensor, y: torch.Tensor, x: torch.Tensor) -> list[torch.Tensor]:
    """The four elements around each point, with their weights; zero outside of the image."""
    height, width = image.shape[1:]
    (y_low, y_high, y_part, y_in), (x_low, x_high, x_part, x_in) = (
        _between(y, height),
        _between(x, width),
    )
    inside = (y_in[:, None] & x_in).to(image.dtype)
    found = []
    for rows, by_row in ((y_low, 1 - y_part), (y_high, y_part)):
        for columns, by_column in ((x_low, 1 - x_part), (x_high, x_part)):
            weight = by_row[:, None] * by_column * inside
            found.append(image[:, rows][:, :, columns] * weight)
    return found


def _between(at: torch.Tensor, size: int) -> tuple[torch.Tensor, ...]:
    """The elements before and behind each coordinate, the part of the latter, and if inside."""
    inside = (at >= -1) & (at <= size)
    place = at.clamp(min=0)
    low = place.to(torch.int64).clamp(max=size - 1)
    part = torch.where(low >= size - 1, torch.zeros_like(place), place - low)
    return low, (low + 1).clamp(max=size - 1), part, inside


@computes("DeformConv")
def deform_conv(node: TorchNode) -> Compute:
    """Convolution whose windows read at places that are moved by offsets."""
    groups, split = node.integer("group", 1), node.integer("offset_group", 1)

    def run(
        x: torch.Tensor, w: torch.Tensor, offset: torch.Tensor, bias: Any = None, mask: Any = None
    ) -> torch.Tensor:
        n, _, rows, columns = offset.shape
        kernel = w.shape[2:]
        moves = offset.reshape(n, split, kernel.numel(), 2, rows, columns)
        places = moves + _grid(node, kernel, rows, columns, x).unsqueeze(0).unsqueeze(0)
        sizes = integer_tensor(x.shape[2:], x.dtype, x.device).reshape(2, 1, 1)
        grid = ((2 * places + 1) / sizes - 1).flip(3).permute(0, 1, 2, 4, 5, 3)
        images = x.reshape(n * split, -1, *x.shape[2:])
        flat = grid.reshape(n * split, kernel.numel() * rows, columns, 2)
        read = functional.grid_sample(images, flat, "bilinear", "zeros", False)
        read = read.reshape(n, split, -1, kernel.numel(), rows, columns)
        if mask is not None:
            read = read * mask.reshape(n, split, 1, kernel.numel(), rows, columns)
        taken = read.reshape(n, groups, -1, rows * columns)
        made = w.reshape(groups, w.shape[0] // groups, -1) @ taken
        made = made.reshape(n, -1, rows, columns)
        return made if bias is None else made + bias.reshape(-1, 1, 1)

    return run


def _grid(
    node: TorchNode, kernel: torch.Size, rows: int, columns: int, x: torch.Tensor
) -> torch.Tensor:
    """The places that windows read without offsets: [kernel, 2, rows, columns]."""
    strides, dilations = (node.integers(name) or [1, 1] for name in ("strides", "dilations"))
    pads = node.integers("pads") or [0, 0]
    axes = []
    for at, count in enumerate((rows, columns)):
        first = torch.arange(count, dtype=x.dtype, device=x.device) * strides[at] - pads[at]
        steps = torch.arange(kernel[at], dtype=x.dtype, device=x.device) * dilations[at]
        axes.append(steps[:, None] + first)
    down = axes[0][:, None, :, None].expand(*kernel, rows, columns)
    across = axes[1][None, :, None, :].expand(*kernel, rows, columns)
    return torch.stack((down, across), 2).reshape(-1, 2, rows, columns)
