"""Comparison: comparisons, logic, and operations on bits."""

from __future__ import annotations

import torch

from ..operator_node import TorchNode
from ..registry import Compute, computes, computes_each

computes_each(
    {
        "And": torch.logical_and,
        "BitwiseAnd": torch.bitwise_and,
        "BitwiseNot": torch.bitwise_not,
        "BitwiseOr": torch.bitwise_or,
        "BitwiseXor": torch.bitwise_xor,
        "Equal": torch.eq,
        "Not": torch.logical_not,
        "Or": torch.logical_or,
        "Where": torch.where,
        "Xor": torch.logical_xor,
    }
)
computes_each(
    {
        "Greater": torch.gt,
        "GreaterOrEqual": torch.ge,
        "Less": torch.lt,
        "LessOrEqual": torch.le,
    },
    ordered=True,
)


@computes("BitShift")
def bit_shift(node: TorchNode) -> Compute:
    """Bits moved to one side, with zeros in their place."""
    if node.text("direction") == "LEFT":
        return lambda x, bits: torch.bitwise_left_shift(x, bits)

    def right(x: torch.Tensor, bits: torch.Tensor) -> torch.Tensor:
        if x.dtype != torch.uint64:
            return torch.bitwise_right_shift(x, bits)
        wide, count = x.view(torch.int64), bits.view(torch.int64)
        moved = torch.bitwise_right_shift(wide, count)
        kept = torch.bitwise_left_shift(torch.full_like(count, -1), 64 - count)
        kept = torch.where(count == 0, torch.zeros_like(kept), kept)
        return torch.bitwise_and(moved, torch.bitwise_not(kept)).view(torch.uint64)

    return right
