"""Losses in .ms files, as MindIR's primitives: the outputs of networks that were trained."""

from __future__ import annotations

from ..builder import Builder, Value, lowers
from .results import as_mindir

_WORDS = {"REDUCTION_SUM": "sum", "MEAN": "mean", "NONE": "none"}


@lowers("Lite.BinaryCrossEntropy")
def binary_cross_entropy(
    b: Builder, x: Value, target: Value, weight: Value = None, *, reduction: str
) -> Value:
    """MindIR's BinaryCrossEntropy."""
    return as_mindir(b, "BinaryCrossEntropy", x, target, weight, _WORDS[reduction])


@lowers("Lite.NLLLoss")
def negative_log_likelihood(
    b: Builder, x: Value, labels: Value, weight: Value, *, reduction: str
) -> Value:
    """MindIR's NLLLoss."""
    return as_mindir(b, "NLLLoss", x, labels, weight, _WORDS[reduction])


@lowers("Lite.SmoothL1Loss")
def smooth_l1(b: Builder, x: Value, target: Value, *, beta: float) -> Value:
    """MindIR's SmoothL1Loss."""
    return as_mindir(b, "SmoothL1Loss", x, target, beta or 1.0)


@lowers(
    "Lite.SigmoidCrossEntropyWithLogits",
    primitive="SigmoidCrossEntropyWithLogits",
)
@lowers("Lite.SoftmaxCrossEntropyWithLogits", primitive="SoftmaxCrossEntropyWithLogits")
def cross_entropy(b: Builder, logits: Value, labels: Value, *, primitive: str) -> Value:
    """MindIR's primitive of that name."""
    return as_mindir(b, primitive, logits, labels)


@lowers("Lite.SparseSoftmaxCrossEntropyWithLogits")
def sparse_cross_entropy(b: Builder, logits: Value, labels: Value, *, is_grad: bool) -> Value:
    """MindIR's SparseSoftmaxCrossEntropyWithLogits."""
    return as_mindir(b, "SparseSoftmaxCrossEntropyWithLogits", logits, labels, is_grad=is_grad)
