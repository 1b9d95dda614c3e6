"""Fused products of onnxruntime: transposed, packed into few bits, or with an activation."""

from __future__ import annotations

from typing import Any

import torch
from torch.nn import functional

from ..operator_node import TorchNode
from ..operators.convolution import Convolution
from ..operators.matrices import gemm, product_for
from ..registry import Compute, computes
from .fused_activations import named_activation


@computes("com.microsoft::FusedMatMul", "com.microsoft::TransposeMatMul")
def fused_mat_mul(node: TorchNode) -> Compute:
    """alpha * A * B, either transposed, the first axis before the matrix too."""
    alpha = node.real("alpha", 1.0)
    turned = [(node.integer(f"transBatch{x}"), node.integer(f"trans{x}")) for x in "AB"]
    multiply = product_for(node)

    def run(*factors: torch.Tensor) -> torch.Tensor:
        a, b = (_turned(x, *how) for x, how in zip(factors, turned, strict=True))
        return multiply(a, b) if alpha == 1 else alpha * multiply(a, b)

    return run


def _turned(x: torch.Tensor, of_batch: int, last: int) -> torch.Tensor:
    x = x.movedim(0, -2) if of_batch else x
    return x.transpose(-1, -2) if last and x.dim() > 1 else x


@computes("com.microsoft::FusedGemm")
def fused_gemm(node: TorchNode) -> Compute:
    """An activation of alpha * A * B + beta * C."""
    product = gemm(node)
    given = ("activation_alpha", "activation_beta")
    numbers = [node.real(name) for name in given if node.has(name)]
    activation = named_activation(node.text("activation"), numbers)
    return lambda *inputs: activation(product(*inputs))


@computes("com.microsoft::FusedConv")
def fused_conv(node: TorchNode) -> Compute:
    """An activation of a convolution and what is added to it."""
    convolution = Convolution(node)
    activation = named_activation(node.text("activation"), node.reals("activation_params") or ())

    def run(x: torch.Tensor, w: torch.Tensor, bias: Any = None, other: Any = None) -> torch.Tensor:
        made = convolution(x, w, bias)
        return activation(made if other is None else made + other)

    return run


@computes("com.microsoft::MatMulNBits")
def mat_mul_n_bits(node: TorchNode) -> Compute:
    """A product with a matrix of 2, 4 or 8 bits, in blocks that have a scale each."""
    return PackedMatMul(node)


class PackedMatMul:
    """A product with the transpose of [N, K], which stays packed and is unpacked in each run.

    The form is that of com.microsoft::MatMulNBits in onnxruntime's ContribOperators.md.
    """

    def __init__(self, node: TorchNode) -> None:
        self._depth, self._rows = node.integer("K"), node.integer("N")
        self._bits, self._block = node.integer("bits", 4), node.integer("block_size")
        if self._bits not in (2, 4, 8):
            raise ValueError(f"weights of {self._bits} bits, expected 2, 4 or 8")

    def __call__(
        self, a: torch.Tensor, packed: torch.Tensor, scales: torch.Tensor, *more: Any
    ) -> torch.Tensor:
        """[..., K] and the packed matrix give [..., N]."""
        zeros, groups, bias = (*more, None, None, None)[:3]
        return functional.linear(a, self._matrix(packed, scales, zeros, groups, a.dtype), bias)

    def _matrix(
        self, packed: torch.Tensor, scales: torch.Tensor, zeros: Any, groups: Any, dtype: Any
    ) -> torch.Tensor:
        blocks = -(-self._depth // self._block)
        values = self._unpacked(packed.reshape(self._rows, -1))[:, : self._depth].to(dtype)
        if groups is None:
            groups = torch.arange(self._depth, device=packed.device) // self._block
        each = scales.reshape(self._rows, blocks).to(dtype)[:, groups.to(torch.int64)]
        if zeros is None:
            return (values - (1 << (self._bits - 1))) * each
        if zeros.dtype == torch.uint8:
            zeros = self._unpacked(zeros.reshape(self._rows, -1))
        middle = zeros.reshape(self._rows, -1)[:, :blocks].to(dtype)[:, groups.to(torch.int64)]
        return (values - middle) * each

    def _unpacked(self, packed: torch.Tensor) -> torch.Tensor:
        """The numbers in rows of bytes, the lowest bits first."""
        shifts = torch.arange(0, 8, self._bits, dtype=torch.uint8, device=packed.device)
        parts = torch.bitwise_right_shift(packed[..., None], shifts)
        return torch.bitwise_and(parts, (1 << self._bits) - 1).flatten(-2)
