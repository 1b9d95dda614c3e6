"""Attended values: products and softmax of attention, by torch's kernel where that is the same."""

from __future__ import annotations

from typing import Any

import torch
from torch.nn import functional

from ..operator_node import TorchNode
from ..patterns.attention_pattern import DOMAIN, OPERATOR
from ..registry import Compute, computes
from ..tensors import torch_dtype

_HIDDEN = -1e30
"""The largest filler of hidden scores that stays as it is, whatever is added to it."""


@computes(f"{DOMAIN}::{OPERATOR}")
def attended_values(node: TorchNode) -> Compute:
    """Softmax(Q * K * scale + bias) * V."""
    return AttendedValues(node)


class AttendedValues:
    """The constants of an attention, and its computation."""

    def __init__(self, node: TorchNode) -> None:
        self._axis, self._divides = node.integer("axis", -1), bool(node.integer("divides"))
        kind = node.integer("to")
        self._to = torch_dtype(kind) if kind else None
        scale, filler = (_constant(node, at) for at in (3, 5))
        # torch's kernel gives 0 for a row that is hidden whole
        guarded = not node.inputs[7] or _constant(node, 7) == 0
        known = scale is not None and filler is not None and guarded
        self._plain = known and (not node.inputs[5] or filler <= _HIDDEN)
        self._scale = 1.0 if not scale else 1 / scale if self._divides else scale

    def __call__(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, *more: Any) -> Any:
        """[batch, heads, rows, features] for keys [batch, heads, features, columns]."""
        scale, condition, filler, bias, _ = more
        if not (self._plain and self._suits(q, k, v, condition, bias)):
            return self._stepwise(q, k, v, *more)
        if condition is not None:
            hidden = torch.where(condition, torch.zeros_like(filler), filler)
            bias = hidden if bias is None else hidden + bias
        if bias is not None:
            bias = bias.expand(*(1,) * (4 - bias.dim()), *bias.shape[:-2], q.shape[2], k.shape[3])
        keys = k.transpose(-1, -2)
        return functional.scaled_dot_product_attention(q, keys, v, bias, scale=self._scale)

    def _suits(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, *masks: Any) -> bool:
        """Whether torch's kernel takes these: heads of one size, and masks that leave the scores'
        shape.
        """
        shape = (*q.shape[:3], k.shape[-1])
        return (
            q.dim() == k.dim() == v.dim() == 4
            and q.shape[:2] == k.shape[:2] == v.shape[:2]
            and q.shape[3] == v.shape[3]
            and self._axis in (-1, 3)
            and q.dtype.is_floating_point
            and self._to in (None, q.dtype)
            and all(one is None or _fits(one, shape, q.dtype) for one in masks)
        )

    def _stepwise(
        self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, scale: Any, condition: Any,
        filler: Any, bias: Any, guard: Any,
    ) -> torch.Tensor:  # fmt: skip
        scores = torch.matmul(q, k)
        if scale is not None:
            scores = scores / scale if self._divides else scores * scale
        scores = scores if condition is None else torch.where(condition, scores, filler)
        scores = scores if bias is None else scores + bias
        shares = torch.softmax(scores, self._axis)
        shares = shares if guard is None else torch.where(shares.isnan(), guard, shares)
        return torch.matmul(shares if self._to is None else shares.to(self._to), v)


def _constant(node: TorchNode, at: int) -> Any:
    """The number of an input; 1 where it is omitted, None where it is not a constant of one."""
    if not node.inputs[at]:
        return 1.0
    found = node.constants.get(at)
    return found.item() if found is not None and found.numel() == 1 else None


def _fits(mask: torch.Tensor, shape: tuple[int, ...], dtype: torch.dtype) -> bool:
    """Whether a mask is broadcast to a shape without making it larger."""
    sizes = reversed(list(zip(reversed(mask.shape), reversed(shape), strict=False)))
    small = mask.dim() <= 4 and all(one in (1, whole) for one, whole in sizes)
    return small and mask.dtype in (dtype, torch.bool)
