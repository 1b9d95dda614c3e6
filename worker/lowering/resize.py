"""Resizing, sampling and padding of images."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from .arguments import at_run_time, channels_first, integers, known, moderate, number
from .builder import Builder, Tensor, Value
from .math import as_dtype
from .registry import lowers

_INT64 = np.dtype(np.int64)


def _resize(b: Builder, image: Value, size: Value, coordinates: str, **attributes: Any) -> Tensor:
    """An image resized to a size given or known at run time, along the axes behind batch and channel."""
    x = b.tensor(image)
    axes = list(range(2, x.rank))
    result: Tensor = b.op("Resize", x, None, None, b.cast(b.tensor(size), _INT64), axes=axes,
                          coordinate_transformation_mode=coordinates, **attributes)
    return result


def _coordinates(align_corners: Value, half_pixel_centers: Value) -> str:
    if align_corners:
        return "align_corners"
    return "half_pixel" if half_pixel_centers else "asymmetric"


@lowers("ResizeNearestNeighbor", "ResizeNearestNeighborV2")
def resize_nearest(b: Builder, image: Value, size: Value, align_corners: Value = False,
                   half_pixel_centers: Value = False, data_format: Value = "NCHW") -> Value:
    """The nearest pixel; which one that is depends on how coordinates are counted."""
    channels_first(data_format)
    rounding = "round_prefer_ceil" if align_corners or half_pixel_centers else "floor"
    coordinates = _coordinates(align_corners, half_pixel_centers)
    return _resize(b, image, size, coordinates, mode="nearest", nearest_mode=rounding)


@lowers("ResizeBilinearV2")
def resize_linear(b: Builder, image: Value, size: Value, align_corners: Value = False,
                  half_pixel_centers: Value = False) -> Value:
    """Linear interpolation."""
    return _resize(b, image, size, _coordinates(align_corners, half_pixel_centers), mode="linear")


@lowers("ResizeLinear1D")
def resize_linear_1d(b: Builder, x: Value, size: Value, coordinate_transformation_mode: Value = 1) -> Value:
    """Linear interpolation of the last axis: of corners that stay corners (1), or of half pixels (2)."""
    corners = coordinate_transformation_mode in (1, "align_corners")
    return _resize(b, x, size, "align_corners" if corners else "half_pixel", mode="linear")


@lowers("AffineGrid")
def affine_grid(b: Builder, theta: Value, output_size: Value, *, align_corners: bool = False) -> Value:
    """The places that affine maps take the pixels of a plane or a volume to."""
    size = b.cast(b.tensor(output_size), _INT64)
    return b.op("AffineGrid", b.tensor(theta), size, align_corners=int(align_corners))


@lowers("ResizeBicubic")
def resize_cubic(b: Builder, image: Value, size: Value, align_corners: Value = False,
                 half_pixel_centers: Value = False) -> Value:
    """Cubic interpolation with MindSpore's rounded coefficients, as two products with matrices of them."""
    x, sizes = b.tensor(image), integers(size, "the size")
    half = bool(half_pixel_centers) and not align_corners
    moderate(max(sizes) * max(known(x, 2), known(x, 3), 1), "the number of coefficients")
    rows, columns = (cubic_matrix(known(x, axis), count, bool(align_corners), half).astype(x.dtype)
                     for axis, count in zip((2, 3), sizes, strict=True))
    return b.op("MatMul", b.op("MatMul", rows, x), np.ascontiguousarray(columns.T))


def cubic_matrix(size: int, count: int, corners: bool, half: bool) -> NDArray[np.float64]:
    """The weights of `size` pixels in `count` new ones: the place of a pixel is rounded to 1/1024 of a pixel.

    With half pixels, as TensorFlow has it, a is -0.5 and pixels outside have no weight; else a is -0.75 and the
    border is repeated.
    """
    scale = (size - 1) / (count - 1) if corners and count > 1 else size / count
    place = (np.arange(count) + 0.5) * scale - 0.5 if half else np.arange(count) * scale
    first = np.floor(place).astype(np.int64)
    part = np.rint((place - first) * 1024) / 1024
    taps = first[:, None] + np.arange(-1, 3)
    weights = _cubic(np.abs(part[:, None] - np.arange(-1, 3)), -0.5 if half else -0.75)
    if half:
        weights = np.where((taps >= 0) & (taps < size), weights, 0.0)
        weights /= weights.sum(1, keepdims=True)
    matrix = np.zeros((count, size))
    np.add.at(matrix, (np.arange(count)[:, None], taps.clip(0, size - 1)), weights)
    return matrix


def _cubic(x: NDArray[np.float64], a: float) -> NDArray[np.float64]:
    near = ((a + 2) * x - (a + 3)) * x * x + 1
    far = ((a * x - 5 * a) * x + 8 * a) * x - 4 * a
    return np.where(x <= 1, near, far)


@lowers("UpsampleNearest1D", "UpsampleNearest2D", "UpsampleNearest3D")
def upsample_nearest(b: Builder, x: Value, output_size: Value = None, scales: Value = None) -> Value:
    """The pixel at or before the place."""
    return _upsample(b, x, output_size, scales, "asymmetric", mode="nearest", nearest_mode="floor")


@lowers("UpsampleLinear1D", "UpsampleBilinear2D", "UpsampleTrilinear3D")
def upsample_linear(b: Builder, x: Value, output_size: Value = None, scales: Value = None,
                    align_corners: Value = False) -> Value:
    """Linear interpolation as torch has it."""
    return _upsample(b, x, output_size, scales, "align_corners" if align_corners else "half_pixel", mode="linear")


@lowers("UpsampleBicubic2D")
def upsample_cubic(b: Builder, x: Value, output_size: Value = None, scales: Value = None,
                   align_corners: Value = False) -> Value:
    """Cubic interpolation as torch has it."""
    coordinates = "align_corners" if align_corners else "half_pixel"
    return _upsample(b, x, output_size, scales, coordinates, mode="cubic", cubic_coeff_a=-0.75)


def _upsample(b: Builder, image: Value, size: Value, scales: Value, coordinates: str, **attributes: Any) -> Tensor:
    if size is not None:
        return _resize(b, image, size, coordinates, **attributes)
    x = b.tensor(image)
    factors = np.array([number(scale, "a scale") for scale in scales], np.float32)
    result: Tensor = b.op("Resize", x, None, factors, axes=list(range(2, x.rank)),
                          coordinate_transformation_mode=coordinates, **attributes)
    return result


@lowers("GridSampler2D", "GridSampler3D")
def grid_sample(b: Builder, input_x: Value, grid: Value, interpolation_mode: Value = 0, padding_mode: Value = 0,
                align_corners: Value = False) -> Value:
    """Samples at the places that the grid names."""
    modes = {0: "linear", "bilinear": "linear", 1: "nearest", 2: "cubic", "bicubic": "cubic"}
    borders = {0: "zeros", 1: "border", 2: "reflection"}
    return b.op("GridSample", b.tensor(input_x), b.tensor(grid), mode=modes.get(interpolation_mode, interpolation_mode),
                padding_mode=borders.get(padding_mode, padding_mode), align_corners=int(bool(align_corners)))


def padded(b: Builder, x: Tensor, before: tuple[Value, ...], after: tuple[Value, ...], axes: tuple[int, ...],
           mode: str = "constant", value: Value = None) -> Tensor:
    """x with so much added (or, negative, taken away) on both sides of the axes given."""
    fill = as_dtype(b, 0 if value is None else value, x.dtype)
    fill = b.op("Reshape", fill, ()) if fill.shape else fill
    result: Tensor = b.op("Pad", x, before + after, fill if mode == "constant" else None, axes, mode=mode)
    return result


@lowers("Pad")
def pad(b: Builder, x: Value, *, paddings: Value) -> Value:
    """Zeros added: (before, after) per axis."""
    tensor = b.tensor(x)
    before, after = tuple(int(p[0]) for p in paddings), tuple(int(p[1]) for p in paddings)
    return padded(b, tensor, before, after, tuple(range(len(before))))


@lowers("MirrorPad")
def mirror_pad(b: Builder, input: Value, paddings: Value, *, mode: str = "REFLECT") -> Value:
    """The edges mirrored, with (SYMMETRIC) or without (REFLECT) the outermost element: (before, after) per axis."""
    rows = np.asarray(paddings).reshape(-1, 2)
    if mode.upper() == "REFLECT":
        return padded(b, b.tensor(input), tuple(rows[:, 0].tolist()), tuple(rows[:, 1].tolist()),
                      tuple(range(len(rows))), "reflect")
    x = b.tensor(input)
    for axis, (before, after) in enumerate(rows.tolist()):
        x = _mirrored(b, x, axis, before, after)
    return x


def _mirrored(b: Builder, x: Tensor, axis: int, before: int, after: int) -> Tensor:
    parts = [x]
    if before:
        parts.insert(0, b.op("Slice", x, (before - 1,), (np.iinfo(np.int64).min,), (axis,), (-1,)))
    if after:
        parts.append(b.op("Slice", x, (-1,), (-1 - after,), (axis,), (-1,)))
    result: Tensor = x if len(parts) == 1 else b.op("Concat", *parts, axis=axis)
    return result


@lowers("PadV3")
def pad_torch(b: Builder, x: Value, paddings: Value, value: Value = None, *, mode: str = "constant",
              paddings_contiguous: bool = True) -> Value:
    """Padding from the last axis to the first: (before, after) per axis, or all befores and then all afters."""
    numbers = paddings if at_run_time(paddings) else integers(paddings, "the paddings")
    half = len(numbers) // 2
    before, after = (numbers[0::2], numbers[1::2]) if paddings_contiguous else (numbers[:half], numbers[half:])
    how = {"circular": "wrap", "replicate": "edge"}.get(mode, mode)
    return padded(b, b.tensor(x), before, after, tuple(-1 - at for at in range(half)), how, value)


@lowers("ConstantPadND")
def constant_pad(b: Builder, input: Value, padding: Value, value: Value = 0) -> Value:
    """A value added, from the last axis to the first."""
    return pad_torch(b, input, padding, value)


@lowers("ReflectionPad1D", "ReflectionPad2D", "ReflectionPad3D", "ReplicationPad1D", "ReplicationPad2D",
        "ReplicationPad3D")
def edge_pad(b: Builder, input: Value, padding: Value) -> Value:
    """The edges mirrored or repeated, from the last axis to the first."""
    reflection = b.node is not None and b.node.primitive.startswith("Reflection")
    return pad_torch(b, input, padding, mode="reflect" if reflection else "edge")
