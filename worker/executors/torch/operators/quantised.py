"""Quantised operators: numbers as small integers with a scale and a zero point."""

from __future__ import annotations

from typing import Any

import torch

from ..operator_node import TorchNode
from ..registry import Compute, computes
from ..tensors import torch_dtype
from .convolution import Convolution


def _spread(value: torch.Tensor, x: torch.Tensor, axis: int, block: int) -> torch.Tensor:
    """A scale or zero point of the tensor, of an axis or of blocks, to broadcast with x."""
    if value.numel() == 1:
        return value.reshape(())
    if not block:
        shape = [1] * x.dim()
        shape[axis] = value.numel()
        return value.reshape(shape)
    return value.repeat_interleave(block, axis).narrow(axis, 0, x.shape[axis])


def rounded(x: torch.Tensor, zero: Any, dtype: torch.dtype) -> torch.Tensor:
    """Numbers rounded to even, moved by the zero point, within the dtype."""
    ends = torch.iinfo(dtype)
    whole = torch.round(x.to(torch.float32) if x.dtype != torch.float64 else x)
    moved = whole if zero is None else whole + zero.to(whole.dtype)
    return torch.clamp(moved, ends.min, ends.max).to(dtype)


@computes("QuantizeLinear", "com.microsoft::QuantizeLinear")
def quantize_linear(node: TorchNode) -> Compute:
    """x / scale + zero point as integers."""
    axis, block = node.integer("axis", 1), node.integer("block_size")
    stated, precision = node.integer("output_dtype"), node.integer("precision")
    default = torch_dtype(stated) if stated else torch.uint8
    computed = torch_dtype(precision) if precision else None

    def run(x: torch.Tensor, scale: torch.Tensor, zero: Any = None) -> torch.Tensor:
        wide = x.to(torch.float32) if x.dtype == torch.int32 else x
        spread = _spread(scale, x, axis, block)
        if computed is not None:
            wide, spread = wide.to(computed), spread.to(computed)
        moved = None if zero is None else _spread(zero, x, axis, block)
        return rounded(wide / spread, moved, default if zero is None else zero.dtype)

    return run


@computes("DequantizeLinear", "com.microsoft::DequantizeLinear")
def dequantize_linear(node: TorchNode) -> Compute:
    """(x - zero point) * scale."""
    axis, block = node.integer("axis", 1), node.integer("block_size")
    stated = node.integer("output_dtype")
    default = torch_dtype(stated) if stated else None

    def run(x: torch.Tensor, scale: torch.Tensor, zero: Any = None) -> torch.Tensor:
        wide = x.to(torch.float32)
        if zero is not None:
            wide = wide - _spread(zero, x, axis, block).to(torch.float32)
        return (wide * _spread(scale, x, axis, block)).to(default or scale.dtype)

    return run


@computes("DynamicQuantizeLinear")
def dynamic_quantize_linear(node: TorchNode) -> Compute:
    """Numbers as uint8, with the scale and zero point that fit them."""

    def run(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        high, low = x.amax().clamp(min=0), x.amin().clamp(max=0)
        span = high - low
        scale = torch.where(span == 0, torch.ones_like(span), span) / 255
        zero = torch.round((0 - low / scale).clamp(0, 255))
        made = (torch.round(x / scale) + zero).clamp(0, 255)
        return made.to(torch.uint8), scale, zero.to(torch.uint8)

    return run


def _centred(x: torch.Tensor, zero: Any, shape: tuple[int, ...]) -> torch.Tensor:
    """x without its zero point, in float64, whose sums of products are exact."""
    wide = x.to(torch.float64)
    if zero is None:
        return wide
    return wide - (zero if zero.numel() == 1 else zero.reshape(shape)).to(torch.float64)


def centred_product(a: torch.Tensor, a_zero: Any, b: torch.Tensor, b_zero: Any) -> torch.Tensor:
    """The product of matrices without their zero points, exact, in float64."""
    rows = () if a_zero is None or a_zero.dim() != 1 else (-1, 1)
    left = _centred(a, a_zero, rows or tuple(a_zero.shape) if a_zero is not None else ())
    return torch.matmul(left, _centred(b, b_zero, () if b_zero is None else tuple(b_zero.shape)))


@computes("MatMulInteger")
def mat_mul_integer(node: TorchNode) -> Compute:
    """Product of matrices of integers as int32."""

    def run(a: torch.Tensor, b: torch.Tensor, *zeros: Any) -> torch.Tensor:
        a_zero, b_zero = (*zeros, None, None)[:2]
        return centred_product(a, a_zero, b, b_zero).to(torch.int32)

    return run


@computes("QLinearMatMul")
def q_linear_mat_mul(node: TorchNode) -> Compute:
    """Product of quantised matrices, quantised."""

    def run(a: Any, a_scale: Any, a_zero: Any, b: Any, b_scale: Any, b_zero: Any,
            y_scale: Any, y_zero: Any) -> torch.Tensor:  # fmt: skip
        left = a_scale.reshape(-1, 1) if a_scale.numel() > 1 and a_scale.dim() == 1 else a_scale
        scale = left.to(torch.float32) * b_scale.to(torch.float32) / y_scale.to(torch.float32)
        return rounded(centred_product(a, a_zero, b, b_zero) * scale, y_zero, y_zero.dtype)

    return run


def _by_channel(w: torch.Tensor) -> tuple[int, ...]:
    return (-1, *(1,) * (w.dim() - 1))


@computes("ConvInteger")
def conv_integer(node: TorchNode) -> Compute:
    """Convolution of integers as int32."""
    convolution = Convolution(node)

    def run(x: torch.Tensor, w: torch.Tensor, *zeros: Any) -> torch.Tensor:
        x_zero, w_zero = (*zeros, None, None)[:2]
        left, right = _centred(x, x_zero, ()), _centred(w, w_zero, _by_channel(w))
        return convolution(left, right).to(torch.int32)

    return run


@computes("QLinearConv")
def q_linear_conv(node: TorchNode) -> Compute:
    """Quantised convolution; scales of the weight may be of channels."""
    convolution = Convolution(node)

    def run(x: Any, x_scale: Any, x_zero: Any, w: Any, w_scale: Any, w_zero: Any,
            y_scale: Any, y_zero: Any, bias: Any = None) -> torch.Tensor:  # fmt: skip
        left, right = _centred(x, x_zero, ()), _centred(w, w_zero, _by_channel(w))
        wide = None if bias is None else bias.to(torch.float64)
        scale = x_scale * w_scale / y_scale
        scale = scale.reshape(1, *_by_channel(w[0])) if scale.numel() > 1 else scale
        return rounded(convolution(left, right, wide) * scale, y_zero, y_zero.dtype)

    return run
