"""Fused operators: those that onnxruntime's optimizer makes of several others.

Source: the schemas and kernels of onnxruntime, domain com.microsoft.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import onnx_ir as ir

from .expander import Expander
from .registry import expands


@expands("com.microsoft::BiasGelu")
def bias_gelu(e: Expander, x: ir.Value, bias: ir.Value) -> ir.Value:
    """gelu(x + bias)."""
    return e.op("Gelu", e.op("Add", x, bias))


@expands("com.microsoft::FastGelu")
def fast_gelu(e: Expander, x: ir.Value, bias: ir.Value | None = None) -> ir.Value:
    """The form of gelu by tanh, of x + bias."""
    return e.op("Gelu", x if bias is None else e.op("Add", x, bias), approximate="tanh")


@expands("com.microsoft::QuickGelu")
def quick_gelu(e: Expander, x: ir.Value, *, alpha: float = 1.702) -> ir.Value:
    """x sigmoid(alpha x)."""
    return e.op("Mul", x, e.op("Sigmoid", e.op("Mul", x, e.like(x, alpha))))


@expands("com.microsoft::FusedMatMul", "com.microsoft::TransposeMatMul")
def fused_matmul(
    e: Expander,
    a: ir.Value,
    b: ir.Value,
    *,
    alpha: float = 1.0,
    transA: int = 0,
    transB: int = 0,
    transBatchA: int = 0,
    transBatchB: int = 0,
) -> ir.Value:
    """alpha a b; either side may be transposed."""
    if transBatchA or transBatchB:
        raise ValueError("transBatchA and transBatchB are not supported")
    left = e.swapped(a, e.rank(a)) if transA and e.rank(a) > 1 else a
    right = e.swapped(b, e.rank(b)) if transB and e.rank(b) > 1 else b
    found = e.op("MatMul", left, right)
    return found if alpha == 1 else e.op("Mul", found, e.like(a, alpha))


@expands("com.microsoft::FusedGemm")
def fused_gemm(
    e: Expander,
    a: ir.Value,
    b: ir.Value,
    bias: ir.Value | None = None,
    *,
    activation: str = "",
    activation_alpha: float | None = None,
    activation_beta: float | None = None,
    activation_gamma: float | None = None,
    alpha: float = 1.0,
    beta: float = 1.0,
    transA: int = 0,
    transB: int = 0,
) -> ir.Value:
    """A Gemm with an activation."""
    found = e.op("Gemm", a, b, bias, alpha=alpha, beta=beta, transA=transA, transB=transB)
    numbers = (activation_alpha, activation_beta, activation_gamma)
    return activated(e, found, activation, [one for one in numbers if one is not None])


@expands("com.microsoft::FusedConv")
def fused_conv(
    e: Expander,
    x: ir.Value,
    weight: ir.Value,
    bias: ir.Value | None = None,
    addend: ir.Value | None = None,
    *,
    activation: str = "",
    activation_params: Sequence[float] = (),
    **places: Any,
) -> ir.Value:
    """A Conv, the sum with another tensor, and an activation."""
    found = e.op("Conv", x, weight, bias, **places)
    total = found if addend is None else e.op("Add", found, addend)
    return activated(e, total, activation, activation_params)


_PARAMETERS = {
    "": (),
    "Relu": (),
    "Sigmoid": (),
    "Tanh": (),
    "LeakyRelu": ("alpha",),
    "HardSigmoid": ("alpha", "beta"),
}


def activated(e: Expander, x: ir.Value, activation: str, parameters: Sequence[float]) -> ir.Value:
    """An activation by its name; Clip has its bounds as parameters."""
    if activation == "Clip":
        bounds = [e.like(e.node.inputs[0], one) for one in parameters]  # type: ignore[arg-type]
        return e.op("Clip", x, *bounds)
    if activation not in _PARAMETERS:
        raise ValueError(f"the activation '{activation}' is not supported")
    named: dict[str, Any] = dict(zip(_PARAMETERS[activation], parameters, strict=False))
    return e.op(activation, x, **named) if activation else x


@expands("com.microsoft::SkipLayerNormalization")
def skip_layer_normalization(
    e: Expander,
    x: ir.Value,
    skip: ir.Value,
    gamma: ir.Value,
    beta: ir.Value | None = None,
    bias: ir.Value | None = None,
    *,
    epsilon: float = 1e-12,
) -> list[ir.Value | None]:
    """The normalised sum, and the sum."""
    total = _total(e, x, skip, bias)
    found = e.op("LayerNormalization", total, gamma, beta, axis=-1, epsilon=epsilon)
    return [found, None, None, total]


@expands("com.microsoft::SkipSimplifiedLayerNormalization")
def skip_simplified(
    e: Expander,
    x: ir.Value,
    skip: ir.Value,
    gamma: ir.Value,
    bias: ir.Value | None = None,
    *,
    epsilon: float = 1e-12,
) -> list[ir.Value | None]:
    """The sum, divided by its root mean square, and the sum."""
    total = _total(e, x, skip, bias)
    found = e.op("SimplifiedLayerNormalization", total, gamma, axis=-1, epsilon=epsilon)
    return [found, None, None, total]


def _total(e: Expander, x: ir.Value, skip: ir.Value, bias: ir.Value | None) -> ir.Value:
    total = e.op("Add", x, skip)
    return total if bias is None else e.op("Add", total, bias)
