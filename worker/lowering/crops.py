"""Crops of images, resized."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .arguments import integers, moderate, number
from .boxes import columns
from .builder import Builder, Tensor, Value
from .math import where
from .registry import lowers
from .shape import dims

_FLOAT32, _INT64, _BOOL = np.dtype(np.float32), np.dtype(np.int64), np.dtype(np.bool_)


class Samples(NamedTuple):
    """Where crops are sampled along one axis, [crops, samples]: nearest lines before and behind, the way, if inside."""

    before: Tensor
    behind: Tensor
    way: Tensor
    inside: Tensor


@lowers("CropAndResize")
def crop_and_resize(b: Builder, x: Value, boxes: Value, box_index: Value, crop_size: Value, *,
                    method: str = "bilinear", extrapolation_value: float = 0.0) -> Value:
    """Boxes (y0, x0, y1, x1; 0 to 1 is the image) of NHWC images as images of one size, outside them a value."""
    if method not in ("bilinear", "nearest"):
        raise ValueError(f"the method {method} is not supported: bilinear and nearest are")
    images, numbers = b.tensor(x), b.cast(box_index, _INT64)
    sizes, wanted = dims(b, images)[1:3], integers(crop_size, "crop_size")
    y0, x0, y1, x1 = columns(b, b.cast(boxes, _FLOAT32), 4)
    down = _samples(b, y0, y1, sizes[0], wanted[0], method)
    across = _samples(b, x0, x1, sizes[1], wanted[1], method)
    rows = b.op("Reshape", b.cast(images, _FLOAT32), b.ints((-1, dims(b, images)[3])))
    first = b.op("Mul", b.op("Unsqueeze", numbers, (1,)), b.tensor(sizes[0]))

    def line(y: Tensor) -> Tensor:
        lines = b.op("Add", first, y)
        one, other = (_pixels(b, rows, lines, at, sizes[1]) for at in (across.before, across.behind))
        return _between(b, one, other, b.op("Unsqueeze", across.way, (1, 3)))

    found = _between(b, line(down.before), line(down.behind), b.op("Unsqueeze", down.way, (2, 3)))
    inside = b.op("And", b.op("Unsqueeze", down.inside, (2, 3)), b.op("Unsqueeze", across.inside, (1, 3)))
    return where(b, inside, found, number(extrapolation_value, "extrapolation_value"), _FLOAT32)


def _samples(b: Builder, start: Tensor, end: Tensor, size: Value, count: int, method: str) -> Samples:
    last = b.cast(b.op("Sub", b.tensor(size), 1), _FLOAT32)
    moderate(count, "the size of the crops")
    steps = np.linspace(0, 1, count, dtype=np.float32) if count > 1 else np.asarray([0.5], np.float32)
    at = b.op("Mul", b.op("Add", start, b.op("Mul", b.op("Sub", end, start), steps)), last)
    inside = b.op("And", b.op("GreaterOrEqual", at, 0.0), b.op("LessOrEqual", at, last))
    held = b.op("Min", b.op("Max", at, 0.0), last)
    before = b.op("Floor", held if method == "bilinear" else b.op("Add", held, 0.5))
    behind = b.op("Ceil", held) if method == "bilinear" else before
    return Samples(b.cast(before, _INT64), b.cast(behind, _INT64), b.op("Sub", held, b.op("Floor", held)), inside)


def _pixels(b: Builder, rows: Tensor, y: Tensor, x: Tensor, width: Value) -> Tensor:
    """[crops, height, width, channels] at lines y, counted through all images, and columns x."""
    line = b.op("Mul", b.op("Unsqueeze", y, (2,)), b.tensor(width))
    found: Tensor = b.op("Gather", rows, b.op("Add", line, b.op("Unsqueeze", x, (1,))), axis=0)
    return found


def _between(b: Builder, one: Tensor, other: Tensor, way: Tensor) -> Tensor:
    result: Tensor = b.op("Add", one, b.op("Mul", b.op("Sub", other, one), way))
    return result
