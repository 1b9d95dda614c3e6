"""Detection in .ms files: boxes of anchors, of which the best that do not overlap are kept.

It is TensorFlow Lite's operator of detectors, computed by ONNX's NonMaxSuppression.
"""

from __future__ import annotations

import numpy as np

from ...element_types.value_types import TensorType
from ..builder import END, INT64, Builder, OnnxTensor, Value, known, lowers
from .results import kept


@lowers("Lite.DetectionPostProcess")
def detection(
    b: Builder,
    boxes: Value,
    scores: Value,
    anchors: Value,
    *,
    scale: Value,
    nms_iou_threshold: float,
    nms_score_threshold: float,
    max_detections: int,
    detections_per_class: int,
    max_classes_per_detection: int,
    num_classes: int,
    use_regular_nms: bool,
) -> Value:
    """(boxes [1, n, 4] as (top, left, bottom, right), classes, scores, their number), zeros behind
    those that were found. The regular way suppresses within each class, the fast one among the best
    classes of all anchors.
    """
    if max_classes_per_detection != 1:
        raise ValueError(f"{max_classes_per_detection} classes for each box, expected 1")
    corners = _corners(b, b.tensor(boxes), b.tensor(anchors), scale)
    columns = b.tensor(scores)
    own = b.op("Slice", columns, (known(columns, 2) - num_classes,), (END,), (2,))
    classes = b.op("Transpose", own, perm=[0, 2, 1])  # [1, classes, anchors]
    limits = (nms_iou_threshold, nms_score_threshold)
    if use_regular_nms:
        of_class, at = _kept(b, corners, classes, detections_per_class, *limits)
    else:
        best = b.op("ReduceMax", classes, (1,), keepdims=1)
        _, at = _kept(b, corners, best, max_detections, *limits)
        first = b.op("ArgMax", b.op("Squeeze", classes, (0,)), axis=0, keepdims=0)
        of_class = b.op("Gather", first, at, axis=0)
    places = b.op("Concat", *(b.op("Unsqueeze", one, (1,)) for one in (of_class, at)), axis=1)
    values = b.op("GatherND", b.op("Squeeze", classes, (0,)), places)
    return kept(b, _ordered(b, corners, of_class, at, values, max_detections))


def _kept(
    b: Builder, corners: OnnxTensor, scores: OnnxTensor, most: int, overlap: float, least: float
) -> tuple[OnnxTensor, OnnxTensor]:
    """The classes and the anchors that do not overlap a better one of their class."""
    found = b.op(
        "NonMaxSuppression",
        corners,
        scores,
        np.asarray([most], np.int64),
        np.asarray([overlap], np.float32),
        np.asarray([least], np.float32),
        type=TensorType(INT64, (-1, 3)),
    )
    classes, anchors = (b.op("Gather", found, b.tensor(axis), axis=1) for axis in (1, 2))
    return classes, anchors


def _corners(b: Builder, boxes: OnnxTensor, anchors: OnnxTensor, scale: Value) -> OnnxTensor:
    """[1, anchors, (top, left, bottom, right)] of offsets from anchors, both (y, x, h, w)."""
    steps = b.op("Div", boxes, np.asarray(scale, np.float32))
    offset, stretch = (b.op("Slice", steps, (at,), (at + 2,), (2,)) for at in (0, 2))
    center, size = (b.op("Slice", anchors, (at,), (at + 2,), (1,)) for at in (0, 2))
    middle = b.op("Add", b.op("Mul", offset, size), center)
    half = b.op("Mul", b.op("Mul", b.op("Exp", stretch), size), 0.5)
    return b.op("Concat", b.op("Sub", middle, half), b.op("Add", middle, half), axis=2)


def _ordered(
    b: Builder,
    corners: OnnxTensor,
    classes: OnnxTensor,
    at: OnnxTensor,
    values: OnnxTensor,
    most: int,
) -> tuple[OnnxTensor, ...]:
    """The four results of what was kept, the best first."""
    count = b.op("Min", b.op("Shape", values), np.asarray([most], np.int64))
    kinds = [TensorType(values.dtype, (-1,)), TensorType(INT64, (-1,))]
    best, order = b.ops("TopK", values, count, outputs=2, types=kinds)
    at, classes = (b.op("Gather", one, order, axis=0) for one in (at, classes))
    rows = b.op("Gather", b.op("Squeeze", corners, (0,)), at, axis=0)
    short = b.op("Sub", np.asarray([most], np.int64), count)
    ends = b.op("Concat", np.zeros(1, np.int64), short, axis=0)
    wide = b.op("Concat", np.zeros(2, np.int64), short, np.zeros(1, np.int64), axis=0)
    flat = (b.op("Pad", b.cast(one, values.dtype), ends) for one in (classes, best))
    results = (b.op("Pad", rows, wide), *flat)
    return (
        *(b.op("Unsqueeze", one, (0,)) for one in results),
        b.cast(count, values.dtype),
    )
