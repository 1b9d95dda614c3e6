"""Fused quantised operators of onnxruntime: functions of quantised tensors, and their products."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.nn import functional

from ..operator_node import TorchNode
from ..operators.pooling import average_pool, global_average_pool
from ..operators.quantised import centred_product, dynamic_quantize_linear, rounded
from ..registry import Compute, computes


def _real(x: torch.Tensor, scale: torch.Tensor, zero: Any) -> torch.Tensor:
    """The numbers of a quantised tensor; scale and zero point are those of all of it."""
    wide = x.to(torch.float32)
    return (wide if zero is None else wide - zero.to(torch.float32)) * scale


def _small(x: torch.Tensor, scale: torch.Tensor, zero: Any) -> torch.Tensor:
    """Numbers as quantised ones: uint8 without a zero point."""
    return rounded(x / scale, zero, torch.uint8 if zero is None else zero.dtype)


def _of_one(function: Callable[[torch.Tensor], torch.Tensor]) -> Compute:
    """A function of one quantised tensor."""

    def run(x: Any, x_scale: Any, x_zero: Any, y_scale: Any, y_zero: Any = None) -> torch.Tensor:
        return _small(function(_real(x, x_scale, x_zero)), y_scale, y_zero)

    return run


def _of_two(function: Compute) -> Compute:
    """A function of two quantised tensors."""

    def run(a: Any, a_scale: Any, a_zero: Any, b: Any, b_scale: Any, b_zero: Any,
            y_scale: Any, y_zero: Any = None) -> torch.Tensor:  # fmt: skip
        made = function(_real(a, a_scale, a_zero), _real(b, b_scale, b_zero))
        return _small(made, y_scale, y_zero)

    return run


@computes("com.microsoft::QLinearAdd")
def q_linear_add(node: TorchNode) -> Compute:
    """Sum."""
    return _of_two(torch.add)


@computes("com.microsoft::QLinearMul")
def q_linear_mul(node: TorchNode) -> Compute:
    """Product of elements."""
    return _of_two(torch.mul)


@computes("com.microsoft::QLinearSigmoid")
def q_linear_sigmoid(node: TorchNode) -> Compute:
    """Sigmoid."""
    return _of_one(torch.sigmoid)


@computes("com.microsoft::QLinearLeakyRelu")
def q_linear_leaky_relu(node: TorchNode) -> Compute:
    """Negative numbers times alpha."""
    alpha = node.real("alpha", 0.01)
    return _of_one(lambda x: functional.leaky_relu(x, alpha))


@computes("com.microsoft::QLinearSoftmax")
def q_linear_softmax(node: TorchNode) -> Compute:
    """Softmax over an axis; before opset 13 over all axes from one on, as one."""
    axis, opset = node.integer("axis", -1), node.integer("opset", 13)

    def softmax(x: torch.Tensor) -> torch.Tensor:
        if opset >= 13:
            return torch.softmax(x, axis)
        start = axis % x.dim()
        return torch.softmax(x.flatten(start), start).reshape(x.shape)

    return _of_one(softmax)


def _pool(node: TorchNode, pool: Compute) -> Compute:
    last = bool(node.integer("channels_last"))
    return _of_one(lambda x: pool(x.movedim(-1, 1)).movedim(1, -1) if last else pool(x))


@computes("com.microsoft::QLinearGlobalAveragePool")
def q_linear_global_average_pool(node: TorchNode) -> Compute:
    """The mean of each channel."""
    return _pool(node, global_average_pool(node))


@computes("com.microsoft::QLinearAveragePool")
def q_linear_average_pool(node: TorchNode) -> Compute:
    """The mean of each window."""
    return _pool(node, average_pool(node))


@computes("com.microsoft::QLinearConcat")
def q_linear_concat(node: TorchNode) -> Compute:
    """The tensors behind each other, each with a scale and zero point of its own."""
    axis = node.integer("axis")

    def run(y_scale: Any, y_zero: Any, *given: Any) -> torch.Tensor:
        parts = [_real(*given[at : at + 3]) for at in range(0, len(given), 3)]
        return _small(torch.cat(parts, axis), y_scale, y_zero)

    return run


@computes("com.microsoft::QGemm")
def q_gemm(node: TorchNode) -> Compute:
    """alpha * A * B + C of quantised matrices; quantised where a scale for it is given."""
    alpha = node.real("alpha", 1.0)
    turned = node.integer("transA"), node.integer("transB")

    def run(a: Any, a_scale: Any, a_zero: Any, b: Any, b_scale: Any, b_zero: Any,
            c: Any = None, y_scale: Any = None, y_zero: Any = None) -> torch.Tensor:  # fmt: skip
        left, right = a.t() if turned[0] else a, b.t() if turned[1] else b
        total = centred_product(left, a_zero, right, b_zero)
        total = total if c is None else total + c
        made = (total * (alpha * a_scale * b_scale)).to(torch.float32)
        return made if y_scale is None else _small(made, y_scale, y_zero)

    return run


@computes("com.microsoft::MatMulIntegerToFloat")
def mat_mul_integer_to_float(node: TorchNode) -> Compute:
    """Product of matrices of integers, with its scales and a bias."""

    def run(a: Any, b: Any, a_scale: Any, b_scale: Any, a_zero: Any = None,
            b_zero: Any = None, bias: Any = None) -> torch.Tensor:  # fmt: skip
        made = centred_product(a, a_zero, b, b_zero).to(torch.float32) * (a_scale * b_scale)
        return made if bias is None else made + bias

    return run


@computes("com.microsoft::DynamicQuantizeMatMul")
def dynamic_quantize_mat_mul(node: TorchNode) -> Compute:
    """Product of a matrix, which is quantised for it, and one of integers."""
    quantize, product = dynamic_quantize_linear(node), mat_mul_integer_to_float(node)

    def run(a: Any, b: Any, b_scale: Any, b_zero: Any = None, bias: Any = None) -> torch.Tensor:
        small, a_scale, a_zero = quantize(a)
        made: torch.Tensor = product(small, b, a_scale, b_scale, a_zero, b_zero, bias)
        return made

    return run
