"""Resizing in .ms files: ONNX's Resize of images whose channels come last."""

from __future__ import annotations

import numpy as np

from ...element_types.dtypes import is_float
from ..builder import FLOAT32, INT64, Builder, OnnxTensor, Value, dims, integers, known, lowers
from .layout import channels_first, channels_last
from .results import as_mindir

_METHODS = {"LINEAR": "linear", "NEAREST": "nearest", "CUBIC": "cubic"}
_COORDINATES = {
    "ASYMMETRIC": "asymmetric",
    "ALIGN_CORNERS": "align_corners",
    "HALF_PIXEL": "half_pixel",
}
_NEAREST = {
    "ROUND_HALF_DOWN": "round_prefer_floor",
    "ROUND_HALF_UP": "round_prefer_ceil",
    "FLOOR": "floor",
    "CEIL": "ceil",
}


@lowers("Lite.Resize")
def resize(
    b: Builder,
    x: Value,
    size: Value = None,
    *,
    method: str,
    new_height: int,
    new_width: int,
    preserve_aspect_ratio: bool,
    coordinate_transform_mode: str,
    cubic_coeff: float,
    exclude_outside: int,
    nearest_mode: str,
) -> Value:
    """An image in another size: (height, width) as attributes, or an input of sizes or of factors.

    The nearest pixel is the one before, or with aligned corners the rounded one, unless the file
    names a mode.
    """
    if preserve_aspect_ratio:
        raise ValueError("preserve_aspect_ratio is not supported: give both sizes")
    if method not in _METHODS:
        raise ValueError(f"the method {method} is not supported")
    image = channels_first(b, x)
    rounded = "round_prefer_ceil" if coordinate_transform_mode == "ALIGN_CORNERS" else "floor"
    y = b.op(
        "Resize",
        image,
        None,
        *_target(b, image, size, (new_height, new_width)),
        coordinate_transformation_mode=_COORDINATES[coordinate_transform_mode],
        mode=_METHODS[method],
        nearest_mode=_NEAREST.get(nearest_mode, rounded),
        cubic_coeff_a=cubic_coeff or -0.75,
        exclude_outside=exclude_outside,
    )
    return channels_last(b, y)


def _target(
    b: Builder, image: OnnxTensor, size: Value, fixed: tuple[int, int]
) -> tuple[OnnxTensor | None, ...]:
    """The factors or sizes of Resize: those of height and width, of two numbers, or of four, which
    are those of NHWC; a single factor is Caffe's, of the gaps between pixels. All four axes are
    given: with some alone, onnxruntime moves transposes wrongly.
    """
    if size is None:
        return None, b.ints((*dims(b, image)[:2], *fixed))
    given = b.tensor(size)
    if isinstance(size, np.ndarray) and size.size == 1:
        (factor,) = integers(size, "the factor")
        sizes = (known(image, axis) for axis in (2, 3))
        fixed_sizes = (one + (one - 1) * (factor - 1) for one in sizes)
        return None, b.ints((*dims(b, image)[:2], *fixed_sizes))
    if given.shape == (4,):
        given = b.op("Slice", given, (1,), (3,), (0,))
    if is_float(given.dtype):
        return (b.op("Concat", np.ones(2, np.float32), b.cast(given, FLOAT32), axis=0),)
    before = b.op("Shape", image, end=2)
    return None, b.op("Concat", before, b.cast(given, INT64), axis=0)


@lowers("Lite.CropAndResize")
def crop_and_resize(
    b: Builder,
    x: Value,
    boxes: Value,
    box_index: Value,
    crop_size: Value,
    *,
    method: str,
    extrapolation_value: float,
) -> Value:
    """MindIR's CropAndResize, whose channels come last too."""
    word = {"LINEAR": "bilinear", "NEAREST": "nearest"}.get(method)
    if word is None:
        raise ValueError(f"the method {method} is not supported")
    size = integers(crop_size, "the size of crops")
    attributes = {"method": word, "extrapolation_value": extrapolation_value}
    return as_mindir(b, "CropAndResize", x, boxes, box_index, size, **attributes)


@lowers("Lite.ROIPooling")
def roi_pooling(
    b: Builder, x: Value, boxes: Value, *, pooled_h: int, pooled_w: int, scale: float
) -> Value:
    """ONNX's MaxRoiPool: boxes are (batch, left, top, right, bottom), as Caffe has them."""
    y = b.op(
        "MaxRoiPool",
        channels_first(b, x),
        b.tensor(boxes),
        pooled_shape=(pooled_h, pooled_w),
        spatial_scale=scale,
    )
    return channels_last(b, y)
