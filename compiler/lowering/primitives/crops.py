"""Crops: boxes of images, resized to one size."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..builder import (
    FLOAT32,
    INT64,
    Builder,
    OnnxTensor,
    Value,
    dims,
    integers,
    lowers,
    moderate,
    number,
    where,
)
from .boxes import columns


class CropSamples(NamedTuple):
    """CropSamples of crops along one axis, [crops, samples].

    They lie between the lines `before` and `behind`, at `way` (0 to 1) between the two. `inside` is
    false for samples outside the image.
    """

    before: OnnxTensor
    behind: OnnxTensor
    way: OnnxTensor
    inside: OnnxTensor


@lowers("CropAndResize")
def crop_and_resize(
    b: Builder,
    x: Value,
    boxes: Value,
    box_index: Value,
    crop_size: Value,
    *,
    method: str = "bilinear",
    extrapolation_value: float = 0.0,
) -> Value:
    """Boxes (y0, x0, y1, x1; 0 to 1 is the image) of NHWC images as images of one size.

    Pixels outside of an image are `extrapolation_value`.
    """
    if method not in ("bilinear", "nearest"):
        raise ValueError(f"the method {method} is not supported: bilinear and nearest are")
    images, numbers = b.tensor(x), b.cast(box_index, INT64)
    sizes, wanted = dims(b, images)[1:3], integers(crop_size, "crop_size")
    y0, x0, y1, x1 = columns(b, b.cast(boxes, FLOAT32), 4)
    down = _samples(b, y0, y1, sizes[0], wanted[0], method)
    across = _samples(b, x0, x1, sizes[1], wanted[1], method)
    rows = b.op("Reshape", b.cast(images, FLOAT32), b.ints((-1, dims(b, images)[3])))
    first = b.op("Mul", b.op("Unsqueeze", numbers, (1,)), b.tensor(sizes[0]))

    def line(y: OnnxTensor) -> OnnxTensor:
        lines = b.op("Add", first, y)
        one, other = (
            _pixels(b, rows, lines, at, sizes[1]) for at in (across.before, across.behind)
        )
        return _between(b, one, other, b.op("Unsqueeze", across.way, (1, 3)))

    found = _between(b, line(down.before), line(down.behind), b.op("Unsqueeze", down.way, (2, 3)))
    rows_inside = b.op("Unsqueeze", down.inside, (2, 3))
    inside = b.op("And", rows_inside, b.op("Unsqueeze", across.inside, (1, 3)))
    return where(b, inside, found, number(extrapolation_value, "extrapolation_value"), FLOAT32)


def _samples(
    b: Builder, start: OnnxTensor, end: OnnxTensor, size: Value, count: int, method: str
) -> CropSamples:
    last = b.cast(b.op("Sub", b.tensor(size), 1), FLOAT32)
    moderate(count, "the size of the crops")
    places = np.linspace(0, 1, count) if count > 1 else np.asarray([0.5])
    way = b.op("Mul", b.op("Sub", end, start), places.astype(np.float32))
    at = b.op("Mul", b.op("Add", start, way), last)
    inside = b.op("And", b.op("GreaterOrEqual", at, 0.0), b.op("LessOrEqual", at, last))
    held = b.op("Min", b.op("Max", at, 0.0), last)
    before = b.op("Floor", held if method == "bilinear" else b.op("Add", held, 0.5))
    behind = b.op("Ceil", held) if method == "bilinear" else before
    lines = b.cast(before, INT64), b.cast(behind, INT64)
    return CropSamples(*lines, b.op("Sub", held, b.op("Floor", held)), inside)


def _pixels(b: Builder, rows: OnnxTensor, y: OnnxTensor, x: OnnxTensor, width: Value) -> OnnxTensor:
    """[crops, height, width, channels] at lines y, counted through all images, and columns x."""
    line = b.op("Mul", b.op("Unsqueeze", y, (2,)), b.tensor(width))
    return b.op("Gather", rows, b.op("Add", line, b.op("Unsqueeze", x, (1,))), axis=0)


def _between(b: Builder, one: OnnxTensor, other: OnnxTensor, way: OnnxTensor) -> OnnxTensor:
    return b.op("Add", one, b.op("Mul", b.op("Sub", other, one), way))
