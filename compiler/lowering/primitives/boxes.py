"""Boxes of detection networks: corners (x0, y0, x1, y1), offsets, overlaps and their selection."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from ...element_types.value_types import TensorType
from ..builder import (
    BOOL,
    FLOAT32,
    INT32,
    INT64,
    Builder,
    OnnxTensor,
    Value,
    filled_like,
    integers,
    lowers,
    number,
    steps,
)


def columns(b: Builder, x: OnnxTensor, count: int) -> tuple[OnnxTensor, ...]:
    """The columns of the last axis, each kept as an axis of size 1."""
    return b.ops("Split", x, outputs=count, axis=-1, num_outputs=count)


def _centres(b: Builder, boxes: OnnxTensor) -> tuple[OnnxTensor, OnnxTensor]:
    """(centres, sizes) of boxes, in which the last pixel counts."""
    start, end = b.ops("Split", boxes, outputs=2, axis=-1, num_outputs=2)
    return b.op("Mul", b.op("Add", start, end), 0.5), b.op("Add", b.op("Sub", end, start), 1.0)


def _four(values: Value, what: str) -> tuple[np.ndarray, np.ndarray]:
    """Four numbers as those of the centre and those of the size."""
    found = np.asarray([number(value, what) for value in values], np.float32)
    return found[:2], found[2:]


@lowers("BoundingBoxDecode")
def decode(
    b: Builder,
    anchor_box: Value,
    deltas: Value,
    *,
    max_shape: Value,
    means: Value = (0.0,) * 4,
    stds: Value = (1.0,) * 4,
    wh_ratio_clip: float = 0.016,
) -> Value:
    """Boxes at offsets from anchors, inside an image of `max_shape` (height, width).

    The factor by which sizes grow is bounded by `wh_ratio_clip`.
    """
    anchors, offsets = b.cast(anchor_box, FLOAT32), b.cast(deltas, FLOAT32)
    (mean_at, mean_by), (std_at, std_by) = _four(means, "the means"), _four(stds, "the stds")
    centre, size = _centres(b, anchors)
    at, by = b.ops("Split", offsets, outputs=2, axis=-1, num_outputs=2)
    at, by = (
        b.op("Add", b.op("Mul", one, std), mean)
        for one, std, mean in ((at, std_at, mean_at), (by, std_by, mean_by))
    )
    most = abs(math.log(number(wh_ratio_clip, "wh_ratio_clip")))
    by = b.op("Exp", b.op("Clip", by, -most, most))
    middle = b.op("Add", centre, b.op("Mul", size, at))
    half = b.op("Mul", b.op("Mul", size, by), 0.5)
    height, width = integers(max_shape, "max_shape")
    last = np.asarray([width, height], np.float32)
    start = b.op("Add", b.op("Sub", middle, half), 0.5)
    end = b.op("Sub", b.op("Add", middle, half), 0.5)
    inside = [b.op("Min", b.op("Max", corner, 0.0), last) for corner in (start, end)]
    return b.cast(b.op("Concat", *inside, axis=-1), b.tensor(anchor_box).dtype)


@lowers("BoundingBoxEncode")
def encode(
    b: Builder,
    anchor_box: Value,
    groundtruth_box: Value,
    *,
    means: Value = (0.0,) * 4,
    stds: Value = (1.0,) * 4,
) -> Value:
    """The offsets of boxes from anchors, which BoundingBoxDecode takes."""
    (mean_at, mean_by), (std_at, std_by) = _four(means, "the means"), _four(stds, "the stds")
    centre, size = _centres(b, b.cast(anchor_box, FLOAT32))
    middle, extent = _centres(b, b.cast(groundtruth_box, FLOAT32))
    at = b.op("Div", b.op("Sub", middle, centre), size)
    by = b.op("Log", b.op("Div", extent, size))
    scaled = [
        b.op("Div", b.op("Sub", one, mean), std)
        for one, mean, std in ((at, mean_at, std_at), (by, mean_by, std_by))
    ]
    return b.cast(b.op("Concat", *scaled, axis=-1), b.tensor(anchor_box).dtype)


@lowers("IOU")
def iou(b: Builder, anchor_boxes: Value, gt_boxes: Value, *, mode: str = "iou") -> Value:
    """[M, N]: overlaps of true boxes and anchors, over the union or (iof) over the true box."""
    anchors, truths = b.cast(anchor_boxes, FLOAT32), b.cast(gt_boxes, FLOAT32)
    rows = columns(b, truths, 4)
    across = [b.op("Transpose", column, perm=[1, 0]) for column in columns(b, anchors, 4)]
    sides = (
        _length(b, b.op("Max", rows[at], across[at]), b.op("Min", rows[at + 2], across[at + 2]))
        for at in (0, 1)
    )
    overlap = b.op("Mul", *sides)
    own, others = _area(b, rows), _area(b, across)
    whole = own if mode == "iof" else b.op("Sub", b.op("Add", own, others), overlap)
    return b.cast(b.op("Div", overlap, whole), b.tensor(anchor_boxes).dtype)


def _length(b: Builder, start: OnnxTensor, end: OnnxTensor) -> OnnxTensor:
    """The pixels from start to end, both counted; 0 where the end is before the start."""
    return b.op("Relu", b.op("Add", b.op("Sub", end, start), 1.0))


def _area(b: Builder, corners: Sequence[OnnxTensor]) -> OnnxTensor:
    return b.op("Mul", _length(b, corners[0], corners[2]), _length(b, corners[1], corners[3]))


@lowers("CheckValid")
def check_valid(b: Builder, bboxes: Value, img_metas: Value) -> Value:
    """Whether boxes lie inside an image of (height * ratio, width * ratio) pixels."""
    boxes, metas = b.cast(bboxes, FLOAT32), b.cast(img_metas, FLOAT32)
    height, width, ratio = columns(b, metas, 3)
    last = b.op("Sub", b.op("Mul", b.op("Concat", width, height, axis=0), ratio), 1.0)
    start, end = b.ops("Split", boxes, outputs=2, axis=-1, num_outputs=2)
    inside = b.op("And", b.op("GreaterOrEqual", start, 0.0), b.op("LessOrEqual", end, last))
    return b.cast(b.op("ReduceMin", b.cast(inside, INT32), (-1,), keepdims=0), BOOL)


@lowers("NMSWithMask")
def nms_with_mask(b: Builder, bboxes: Value, *, iou_threshold: float = 0.5) -> Value:
    """(boxes with scores, best first; their numbers; whether no better one overlaps too much)."""
    rows = b.tensor(bboxes)
    x0, y0, x1, y1, scores = columns(b, b.cast(rows, FLOAT32), 5)
    flat = b.op("Reshape", scores, (-1,))
    count = b.op("Shape", flat)
    kinds = [TensorType(FLOAT32, (-1,)), TensorType(INT64, (-1,))]
    _, order = b.ops("TopK", flat, count, outputs=2, types=kinds)
    corners = b.op("Gather", b.op("Concat", y0, x0, y1, x1, axis=-1), order, axis=0)
    ranked = b.op("Gather", flat, order)
    found = b.op(
        "NonMaxSuppression",
        b.op("Unsqueeze", corners, (0,)),
        b.op("Reshape", ranked, (1, 1, -1)),
        b.op("Squeeze", count, (0,)),
        float(number(iou_threshold, "iou_threshold")),
        type=TensorType(INT64, (-1, 3)),
    )
    kept = b.op("Gather", found, np.asarray(2, np.int64), axis=1)
    ones = filled_like(b, 1, kept, INT32)
    zeros = b.op("Expand", np.zeros((), np.int32), count)
    mask = b.op("ScatterElements", zeros, kept, ones, axis=0)
    numbers = b.cast(steps(b, b.op("Squeeze", count, (0,))), INT32)
    return b.op("Gather", rows, order, axis=0), numbers, b.cast(mask, BOOL)


@lowers("ROIAlign")
def roi_align(
    b: Builder,
    features: Value,
    rois: Value,
    *,
    pooled_height: int,
    pooled_width: int,
    spatial_scale: float,
    sample_num: int = 2,
    roi_end_mode: int = 1,
) -> Value:
    """Means of bilinear samples in a grid over each region (image, x0, y0, x1, y1).

    ONNX's output_half_pixel makes no region smaller than a pixel. With `roi_end_mode` the last
    pixel counts and there is no smallest size: that is half_pixel, moved by the half pixel that it
    takes off.
    """
    images, *corners = columns(b, b.cast(rois, FLOAT32), 5)
    regions = b.op("Concat", *corners, axis=-1)
    if roi_end_mode:
        shift = 0.5 / spatial_scale
        regions = b.op("Add", regions, np.asarray([shift, shift, shift + 1, shift + 1], np.float32))
    found = b.op(
        "RoiAlign",
        b.cast(features, FLOAT32),
        regions,
        b.cast(b.op("Reshape", images, (-1,)), INT64),
        output_height=pooled_height,
        output_width=pooled_width,
        spatial_scale=float(spatial_scale),
        sampling_ratio=max(0, sample_num),
        mode="avg",
        coordinate_transformation_mode="half_pixel" if roi_end_mode else "output_half_pixel",
    )
    return b.cast(found, b.tensor(features).dtype)
