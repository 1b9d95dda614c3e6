"""Losses: of classes, by their logarithms of probabilities."""

from __future__ import annotations

from typing import Any

import torch
from torch.nn import functional

from ..operator_node import TorchNode
from ..registry import Compute, computes

_NONE_IGNORED = -100
"""The class that torch ignores by itself; no model has it."""


@computes("NegativeLogLikelihoodLoss")
def negative_log_likelihood_loss(node: TorchNode) -> Compute:
    """Minus the logarithm of the probability of the true class."""
    ignored, reduction = node.integer("ignore_index", _NONE_IGNORED), node.text("reduction", "mean")

    def run(x: torch.Tensor, target: torch.Tensor, weight: Any = None) -> torch.Tensor:
        wanted = target.to(torch.int64)
        if x.dim() == 3:  # torch has this loss for one and for two more axes than classes
            x, wanted = x.unsqueeze(-1), wanted.unsqueeze(-1)
            loss = functional.nll_loss(x, wanted, weight, ignore_index=ignored, reduction=reduction)
            return loss.squeeze(-1) if reduction == "none" else loss
        return functional.nll_loss(x, wanted, weight, ignore_index=ignored, reduction=reduction)

    return run


@computes("SoftmaxCrossEntropyLoss")
def softmax_cross_entropy_loss(node: TorchNode) -> Compute:
    """The loss of the softmax of scores, and the logarithm of that softmax."""
    loss = negative_log_likelihood_loss(node)

    def run(x: torch.Tensor, target: torch.Tensor, weight: Any = None) -> Any:
        logarithm = torch.log_softmax(x, 1)
        found = loss(logarithm, target, weight)
        return (found, logarithm) if node.gives(1) else found

    return run
