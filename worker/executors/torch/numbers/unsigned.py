"""Unsigned division: quotients and remainders of uint64, for which torch has no kernels."""

from __future__ import annotations

import torch

from ..tensors import in_order

_MOST = (1 << 63) - 1


def quotient(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """x / y towards zero, both uint64."""
    number, divisor = x.view(torch.int64), y.view(torch.int64)
    large = divisor < 0  # 2**63 or more: the quotient is 0 or 1
    small = torch.where(large, torch.ones_like(divisor), divisor)
    half = torch.bitwise_right_shift(number, 1) & _MOST
    found = 2 * torch.div(half, small, rounding_mode="trunc")
    found = found + _reaches(number - found * small, small)
    return torch.where(large, _reaches(number, divisor), found).view(torch.uint64)


def remainder(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """The remainder of x / y, both uint64."""
    found = quotient(x, y).view(torch.int64) * y.view(torch.int64)
    return (x.view(torch.int64) - found).view(torch.uint64)


def _reaches(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """1 where the bits of x, as uint64, are no less than those of y; else 0."""
    return (in_order(x) >= in_order(y)).to(torch.int64)
