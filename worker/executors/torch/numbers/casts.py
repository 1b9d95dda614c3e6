"""Casts: real numbers to integers as processors do it, on devices that do it otherwise."""

from __future__ import annotations

import torch

_BY_HALF = {torch.int8, torch.int16, torch.uint16, torch.int32}
"""Dtypes to which processors get by int32; to others by int64."""
_NOT_NUMBERS = {torch.bool, torch.float16, torch.bfloat16, torch.float32, torch.float64}


def in_dtype(x: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """The numbers in a dtype, as x.to(dtype) gives them on a CPU.

    ONNX leaves it open what becomes of a number beyond an integer's bounds, and of NaN. On a CPU
    the number wraps around, and what int32 or int64 does not have becomes the least one that it
    has. A GPU gives the integer that is next to the number.
    """
    if not x.dtype.is_floating_point or dtype in _NOT_NUMBERS or dtype.is_complex:
        return x.to(dtype)
    wide = x if x.dtype == torch.float64 else x.to(torch.float32)
    if dtype == torch.uint64:
        return _unsigned(wide)
    return _whole(wide, torch.int32 if dtype in _BY_HALF else torch.int64).to(dtype)


def _whole(x: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """Numbers cut to int32 or int64; others than these have are the least of them."""
    limit = _limit(dtype)
    outside = ~((x >= -limit) & (x < limit))  # NaN too
    return x.to(dtype).masked_fill(outside, torch.iinfo(dtype).min)


def _unsigned(x: torch.Tensor) -> torch.Tensor:
    """Numbers cut to uint64: those from 2**63 on lie that much lower in int64."""
    limit, least = _limit(torch.int64), torch.iinfo(torch.int64).min
    low, high = _whole(x, torch.int64), _whole(x - limit, torch.int64)
    return torch.where(x >= limit, high + least, low).view(torch.uint64)


def _limit(dtype: torch.dtype) -> float:
    return -float(torch.iinfo(dtype).min)
