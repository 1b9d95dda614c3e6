"""Losses: predictions compared with targets, in networks for evaluation."""

from __future__ import annotations

import numpy as np

from ..builder import FLOAT32, Builder, OnnxTensor, Value, as_dtype, integer, lowers, number, where
from .gather import index

_REDUCTIONS = {0: "sum", 1: "mean", 2: "none"}


def summed_up(b: Builder, loss: OnnxTensor, reduction: Value) -> OnnxTensor:
    """A loss per element as it is (none), its sum, mean, or sum per sample (batchmean)."""
    how = _REDUCTIONS.get(reduction, reduction)
    if how == "none":
        return loss
    if how == "batchmean":
        total = b.op("ReduceSum", loss, keepdims=0)
        count = b.cast(b.op("Gather", b.op("Shape", loss), np.asarray(0, np.int64)), loss.dtype)
        return b.op("Div", total, count)
    if how not in ("sum", "mean"):
        raise ValueError(f"the reduction {how} is not supported")
    return b.op("ReduceSum" if how == "sum" else "ReduceMean", loss, keepdims=0)


@lowers("MSELossExt", squared=True)
@lowers("L1LossExt", squared=False)
def difference_loss(
    b: Builder, input: Value, target: Value, reduction: Value = "mean", *, squared: bool
) -> Value:
    """Squared or absolute differences."""
    gap = b.op("Sub", b.tensor(input), b.tensor(target))
    return summed_up(b, b.op("Mul", gap, gap) if squared else b.op("Abs", gap), reduction)


@lowers("SmoothL1Loss")
def smooth_l1_loss(
    b: Builder, prediction: Value, target: Value, beta: Value = 1.0, reduction: Value = "none"
) -> Value:
    """gap^2 / (2 * beta) for absolute differences below beta, gap - beta / 2 above."""
    bound = float(number(beta, "beta"))
    gap = b.op("Abs", b.op("Sub", b.tensor(prediction), b.tensor(target)))
    small = b.op("Div", b.op("Mul", b.op("Mul", gap, gap), 0.5), bound)
    loss = where(b, b.op("Less", gap, bound), small, b.op("Sub", gap, 0.5 * bound), gap.dtype)
    return summed_up(b, loss, reduction)


@lowers("SoftMarginLoss")
def soft_margin_loss(b: Builder, input: Value, target: Value, reduction: Value = "mean") -> Value:
    """log(1 + exp(-target * input))."""
    product = b.op("Mul", b.tensor(target), b.tensor(input))
    return summed_up(b, b.op("Softplus", b.op("Neg", product)), reduction)


@lowers("KLDivLoss", "KLDiv")
def kl_div(
    b: Builder, input: Value, target: Value, reduction: Value = "mean", log_target: Value = False
) -> Value:
    """target * (log(target) - input), 0 where the target is 0."""
    x, y = b.tensor(input), b.tensor(target)
    if log_target:
        loss = b.op("Mul", b.op("Exp", y), b.op("Sub", y, x))
    else:
        loss = b.op("Mul", y, b.op("Sub", b.op("Log", y), x))
        loss = where(b, b.op("Greater", y, 0.0), loss, 0.0, x.dtype)
    return summed_up(b, loss, reduction)


@lowers("BinaryCrossEntropy")
def binary_cross_entropy(
    b: Builder, input: Value, target: Value, weight: Value = None, reduction: Value = "mean"
) -> Value:
    """-weight * (target * log(input) + (1 - target) * log(1 - input)), log at least log(1e-12)."""
    x, y = b.tensor(input), b.tensor(target)
    half = x.dtype
    if half.itemsize == 2:
        x, y = b.cast(x, FLOAT32), b.cast(y, FLOAT32)
    one, least = b.tensor(1.0, x.dtype), b.tensor(1e-12, x.dtype)
    yes = b.op("Mul", y, b.op("Log", b.op("Add", x, least)))
    no = b.op("Mul", b.op("Sub", one, y), b.op("Log", b.op("Add", b.op("Sub", one, x), least)))
    loss = b.op("Neg", b.op("Add", yes, no))
    loss = loss if weight is None else b.op("Mul", loss, as_dtype(b, weight, x.dtype))
    return b.cast(summed_up(b, loss, reduction), half)


@lowers("BCEWithLogitsLoss")
def bce_with_logits(
    b: Builder,
    input: Value,
    target: Value,
    weight: Value = None,
    pos_weight: Value = None,
    reduction: Value = "mean",
) -> Value:
    """weight * ((1 - target) * input + (1 + (pos_weight - 1) * target) * log(1 + exp(-input)))."""
    x, y = b.tensor(input), b.tensor(target)
    one = b.tensor(1.0, x.dtype)
    factor = (
        one
        if pos_weight is None
        else b.op("Add", one, b.op("Mul", b.op("Sub", as_dtype(b, pos_weight, x.dtype), one), y))
    )
    tail = b.op("Mul", factor, b.op("Softplus", b.op("Neg", x)))
    loss = b.op("Add", b.op("Mul", b.op("Sub", one, y), x), tail)
    loss = loss if weight is None else b.op("Mul", loss, as_dtype(b, weight, x.dtype))
    return summed_up(b, loss, reduction)


@lowers("SigmoidCrossEntropyWithLogits")
def sigmoid_cross_entropy(b: Builder, logits: Value, label: Value) -> Value:
    """log(1 + exp(logits)) - logits * label."""
    x = b.tensor(logits)
    return b.op("Sub", b.op("Softplus", x), b.op("Mul", x, b.tensor(label)))


@lowers("SoftmaxCrossEntropyWithLogits")
def softmax_cross_entropy(b: Builder, logits: Value, labels: Value) -> Value:
    """(minus the sum of labels * log(softmax), softmax - labels)."""
    x, y = b.tensor(logits), b.tensor(labels)
    loss = b.op(
        "Neg", b.op("ReduceSum", b.op("Mul", y, b.op("LogSoftmax", x, axis=-1)), (-1,), keepdims=0)
    )
    return loss, b.op("Sub", b.op("Softmax", x, axis=-1), y)


@lowers("SparseSoftmaxCrossEntropyWithLogits")
def sparse_softmax_cross_entropy(
    b: Builder, logits: Value, labels: Value, *, is_grad: bool = False
) -> Value:
    """The mean of -log(softmax) at the labels."""
    if is_grad:
        raise ValueError(
            "the gradient of a loss is not supported: export the network for evaluation"
        )
    picked = _at_labels(b, b.op("LogSoftmax", b.tensor(logits), axis=-1), index(b, labels))
    return b.op("Neg", b.op("ReduceMean", picked, keepdims=0))


def _at_labels(b: Builder, values: OnnxTensor, labels: OnnxTensor) -> OnnxTensor:
    """One element of axis 1 per label."""
    found = b.op("GatherElements", values, b.op("Unsqueeze", labels, (1,)), axis=1)
    return b.op("Squeeze", found, (1,))


@lowers("NLLLoss")
def nll_loss(
    b: Builder,
    logits: Value,
    labels: Value,
    weight: Value,
    reduction: Value = "mean",
    ignore_index: Value = -100,
) -> Value:
    """(-weight * logits at the labels, the weights' sum), labels of ignore_index left out."""
    x, ids, skip = b.tensor(logits), index(b, labels), integer(ignore_index, "ignore_index")
    left_out = b.op("Equal", ids, skip)
    safe = where(b, left_out, 0, ids, ids.dtype)
    weights = where(b, left_out, 0.0, b.op("Gather", as_dtype(b, weight, x.dtype), safe), x.dtype)
    loss = b.op("Neg", b.op("Mul", _at_labels(b, x, safe), weights))
    total = b.op("ReduceSum", weights, keepdims=0)
    how = _REDUCTIONS.get(reduction, reduction)
    return b.op("Div", b.op("ReduceSum", loss, keepdims=0), total) if how == "mean" else summed_up(
        b, loss, how
    ), total
