"""Resizing: images in other sizes, and samples of them."""

from __future__ import annotations

from typing import TypedDict

import numpy as np
from numpy.typing import NDArray

from ..builder import (
    INT64,
    Builder,
    OnnxTensor,
    Value,
    integers,
    known,
    lowers,
    moderate,
    number,
    require_channels_first,
)

_SAMPLING: dict[Value, Value] = {
    0: "linear",
    "bilinear": "linear",
    1: "nearest",
    2: "cubic",
    "bicubic": "cubic",
}
_BORDERS: dict[Value, Value] = {0: "zeros", 1: "border", 2: "reflection"}


class Interpolation(TypedDict, total=False):
    """The ONNX attributes of an interpolation."""

    mode: str
    nearest_mode: str
    cubic_coeff_a: float


_LINEAR: Interpolation = {"mode": "linear"}
_FLOOR: Interpolation = {"mode": "nearest", "nearest_mode": "floor"}
_CUBIC: Interpolation = {"mode": "cubic", "cubic_coeff_a": -0.75}


def _resize(
    b: Builder,
    image: Value,
    size: Value,
    coordinates: str,
    method: Interpolation,
    scales: Value = None,
) -> OnnxTensor:
    """An image resized along the axes behind batch and channel, to a size or by scales.

    The size may be known at run time only.
    """
    x = b.tensor(image)
    if size is None:
        sizes: list[Value] = [np.array([number(scale, "a scale") for scale in scales], np.float32)]
    else:
        sizes = [None, b.cast(b.tensor(size), INT64)]
    return b.op(
        "Resize",
        x,
        None,
        *sizes,
        axes=list(range(2, x.rank)),
        coordinate_transformation_mode=coordinates,
        **method,
    )


def _coordinates(align_corners: Value, half_pixel_centers: Value) -> str:
    if align_corners:
        return "align_corners"
    return "half_pixel" if half_pixel_centers else "asymmetric"


@lowers("ResizeNearestNeighbor", "ResizeNearestNeighborV2")
def resize_nearest(
    b: Builder,
    image: Value,
    size: Value,
    align_corners: Value = False,
    half_pixel_centers: Value = False,
    data_format: Value = "NCHW",
) -> Value:
    """The nearest pixel; which one that is depends on how coordinates are counted."""
    require_channels_first(data_format)
    rounding = "round_prefer_ceil" if align_corners or half_pixel_centers else "floor"
    coordinates = _coordinates(align_corners, half_pixel_centers)
    return _resize(b, image, size, coordinates, {"mode": "nearest", "nearest_mode": rounding})


@lowers("ResizeBilinearV2")
def resize_linear(
    b: Builder,
    image: Value,
    size: Value,
    align_corners: Value = False,
    half_pixel_centers: Value = False,
) -> Value:
    """Linear interpolation."""
    return _resize(b, image, size, _coordinates(align_corners, half_pixel_centers), _LINEAR)


@lowers("ResizeLinear1D")
def resize_linear_1d(
    b: Builder, x: Value, size: Value, coordinate_transformation_mode: Value = 1
) -> Value:
    """Linear interpolation of the last axis, with aligned corners (1) or half pixels (2)."""
    corners = coordinate_transformation_mode in (1, "align_corners")
    return _resize(b, x, size, "align_corners" if corners else "half_pixel", _LINEAR)


@lowers("AffineGrid")
def affine_grid(
    b: Builder, theta: Value, output_size: Value, *, align_corners: bool = False
) -> Value:
    """The places that affine maps take the pixels of a plane or a volume to."""
    size = b.cast(b.tensor(output_size), INT64)
    return b.op("AffineGrid", b.tensor(theta), size, align_corners=int(align_corners))


@lowers("ResizeBicubic")
def resize_cubic(
    b: Builder,
    image: Value,
    size: Value,
    align_corners: Value = False,
    half_pixel_centers: Value = False,
) -> Value:
    """Cubic interpolation with MindSpore's rounded coefficients, as two matrix products."""
    x, sizes = b.tensor(image), integers(size, "the size")
    half = bool(half_pixel_centers) and not align_corners
    moderate(max(sizes) * max(known(x, 2), known(x, 3), 1), "the number of coefficients")
    rows, columns = (
        cubic_matrix(known(x, axis), count, bool(align_corners), half).astype(x.dtype)
        for axis, count in zip((2, 3), sizes, strict=True)
    )
    return b.op("MatMul", b.op("MatMul", rows, x), np.ascontiguousarray(columns.T))


def cubic_matrix(size: int, count: int, corners: bool, half: bool) -> NDArray[np.float64]:
    """[count, size]: weights of pixels in new ones, whose places are rounded to 1/1024 pixel.

    With half pixels, as TensorFlow has it, a is -0.5 and pixels outside have no weight; else a is
    -0.75 and the border is repeated.
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
def upsample_nearest(
    b: Builder, x: Value, output_size: Value = None, scales: Value = None
) -> Value:
    """The pixel at or before the place."""
    return _resize(b, x, output_size, "asymmetric", _FLOOR, scales)


@lowers("UpsampleLinear1D", "UpsampleBilinear2D", "UpsampleTrilinear3D", method=_LINEAR)
@lowers("UpsampleBicubic2D", method=_CUBIC)
def upsample(
    b: Builder,
    x: Value,
    output_size: Value = None,
    scales: Value = None,
    align_corners: Value = False,
    *,
    method: Interpolation,
) -> Value:
    """Linear or cubic interpolation as torch has it."""
    coordinates = "align_corners" if align_corners else "half_pixel"
    return _resize(b, x, output_size, coordinates, method, scales)


@lowers("GridSampler2D", "GridSampler3D")
def grid_sample(
    b: Builder,
    input_x: Value,
    grid: Value,
    interpolation_mode: Value = 0,
    padding_mode: Value = 0,
    align_corners: Value = False,
) -> Value:
    """Samples at the places of a grid."""
    return b.op(
        "GridSample",
        b.tensor(input_x),
        b.tensor(grid),
        mode=_SAMPLING.get(interpolation_mode) or interpolation_mode,
        padding_mode=_BORDERS.get(padding_mode) or padding_mode,
        align_corners=int(bool(align_corners)),
    )
