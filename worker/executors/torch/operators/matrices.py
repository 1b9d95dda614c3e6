"""Matrices: products of them, and determinants."""

from __future__ import annotations

from typing import Any

import torch

from ..numbers.integer_products import matrix_product, summed_product
from ..operator_node import TorchNode
from ..registry import Compute, computes, computes_each

computes_each({"Det": torch.linalg.det})


def product_for(node: TorchNode) -> Compute:
    """The product of matrices on the node's device: torch multiplies no integers on a GPU."""
    return torch.matmul if node.device.type == "cpu" else matrix_product


@computes("MatMul")
def mat_mul(node: TorchNode) -> Compute:
    """Product of matrices, or of all of a batch."""
    return product_for(node)


@computes("Gemm")
def gemm(node: TorchNode) -> Compute:
    """alpha * A * B + beta * C, either matrix transposed."""
    alpha, beta = node.real("alpha", 1.0), node.real("beta", 1.0)
    turned = node.integer("transA"), node.integer("transB")
    multiply = product_for(node)

    def run(a: torch.Tensor, b: torch.Tensor, c: torch.Tensor | None = None) -> torch.Tensor:
        a, b = a.t() if turned[0] else a, b.t() if turned[1] else b
        if not a.dtype.is_floating_point:
            return _of_integers(multiply(a, b), c, alpha, beta)
        if c is not None and beta:
            return torch.addmm(c, a, b, beta=beta, alpha=alpha)
        product = torch.mm(a, b)
        return product if alpha == 1 else alpha * product

    return run


def _of_integers(product: torch.Tensor, c: Any, alpha: float, beta: float) -> torch.Tensor:
    if alpha != 1:
        product = (alpha * product).to(product.dtype)
    return product if c is None else product + (c if beta == 1 else (beta * c).to(product.dtype))


@computes("Einsum")
def einsum(node: TorchNode) -> Compute:
    """Einstein's summation."""
    equation = node.text("equation").replace(" ", "")
    summed = torch.einsum if node.device.type == "cpu" else summed_product
    return lambda *inputs: summed(equation, *inputs)
