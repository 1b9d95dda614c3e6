"""Margin losses: the amount by which scores or distances miss a margin between them."""

from __future__ import annotations

import numpy as np

from ..builder import (
    INT64,
    Builder,
    OnnxTensor,
    Value,
    as_dtype,
    dims,
    filled_like,
    integer,
    lowers,
    number,
    where,
)
from .gather import index
from .loss import summed_up


@lowers("MultiMarginLoss")
def multi_margin_loss(
    b: Builder,
    x: Value,
    target: Value,
    weight: Value = None,
    *,
    p: int = 1,
    margin: float = 1.0,
    reduction: Value = "mean",
) -> Value:
    """The mean of weight[target] * max(0, margin - x[target] + x[j])^p over other classes j."""
    scores, labels = b.tensor(x), b.op("Unsqueeze", index(b, target), (1,))
    gap = b.op(
        "Sub", b.op("Add", scores, float(margin)), b.op("GatherElements", scores, labels, axis=1)
    )
    loss = b.op("Relu", gap)
    loss = b.op("Mul", loss, loss) if integer(p, "p") == 2 else loss
    if weight is not None:
        loss = b.op("Mul", loss, b.op("Gather", as_dtype(b, weight, scores.dtype), labels))
    count = dims(b, scores)[1]
    classes = b.op(
        "Range", b.tensor(0, labels.dtype), b.cast(count, labels.dtype), b.tensor(1, labels.dtype)
    )
    others = where(b, b.op("Equal", classes, labels), 0.0, loss, scores.dtype)
    total = b.op("ReduceSum", others, (1,), keepdims=0)
    return summed_up(b, b.op("Div", total, b.cast(count, scores.dtype)), reduction)


@lowers("MultilabelMarginLoss")
def multilabel_margin_loss(
    b: Builder, x: Value, target: Value, *, reduction: Value = "mean"
) -> Value:
    """(sum of max(0, 1 - x[label] + x[j]) over labels and other classes j / classes; labels).

    A row's labels end with the first that is negative.
    """
    scores, ids = b.tensor(x), b.cast(target, INT64)
    dtype = scores.dtype
    ended = b.op("CumSum", b.cast(b.op("Less", ids, 0), ids.dtype), np.asarray(-1, np.int64))
    valid = b.op("Equal", ended, 0)
    labels, count = where(b, valid, ids, 0, ids.dtype), b.cast(valid, dtype)
    nothing = filled_like(b, 0, scores, dtype)
    marked = b.op("ScatterElements", nothing, labels, count, axis=-1, reduction="max")
    own = b.op("Unsqueeze", b.op("GatherElements", scores, labels, axis=-1), (-1,))
    gap = b.op("Sub", b.op("Add", b.op("Unsqueeze", scores, (-2,)), 1.0), own)
    others = b.op("Unsqueeze", b.op("Sub", b.tensor(1.0, dtype), marked), (-2,))
    loss = b.op("Mul", b.op("Mul", b.op("Relu", gap), b.op("Unsqueeze", count, (-1,))), others)
    total = b.op("ReduceSum", loss, (-1, -2), keepdims=0)
    mean = b.op("Div", total, b.cast(dims(b, scores)[-1], dtype))
    return summed_up(b, mean, reduction), b.cast(marked, b.tensor(target).dtype)


@lowers("TripletMarginLoss")
def triplet_margin_loss(
    b: Builder,
    x: Value,
    positive: Value,
    negative: Value,
    margin: Value,
    *,
    p: int = 2,
    swap: bool = False,
    eps: float = 1e-6,
    reduction: Value = "mean",
) -> Value:
    """max(0, margin + |x - positive| - |x - negative|); `swap`: or |positive - negative|."""
    anchor, like, unlike = b.tensor(x), b.tensor(positive), b.tensor(negative)
    near, far = (
        _distance(b, anchor, other, integer(p, "p"), number(eps, "eps")) for other in (like, unlike)
    )
    if swap:
        far = b.op("Min", far, _distance(b, like, unlike, integer(p, "p"), number(eps, "eps")))
    gap = b.op("Add", b.op("Sub", near, far), as_dtype(b, margin, anchor.dtype))
    return summed_up(b, b.op("Relu", gap), reduction)


def _distance(b: Builder, one: OnnxTensor, other: OnnxTensor, p: int, eps: float) -> OnnxTensor:
    """The p-norm along axis 1 of the differences, each enlarged by eps."""
    gap = b.op("Add", b.op("Abs", b.op("Sub", one, other)), eps)
    total = b.op("ReduceSum", gap if p == 1 else b.op("Pow", gap, float(p)), (1,), keepdims=0)
    return total if p == 1 else b.op("Pow", total, 1.0 / p)
