"""Mixtures of experts: each row goes to the experts that its router chooses."""

from __future__ import annotations

import onnx_ir as ir

from .expander import Expander
from .registry import expands


@expands("com.microsoft::MoE")
def mixture(
    e: Expander,
    x: ir.Value,
    router: ir.Value,
    first: ir.Value,
    first_bias: ir.Value | None,
    second: ir.Value,
    second_bias: ir.Value | None = None,
    third: ir.Value | None = None,
    third_bias: ir.Value | None = None,
    *,
    k: int = 1,
    activation_type: str = "relu",
    normalize_routing_weights: int = 0,
    **more: float,
) -> ir.Value:
    """The results of the k most probable experts, times their probabilities, added up.

    Every expert computes every row, as onnxruntime's results do not depend on it.
    """
    if third is not None or third_bias is not None:
        raise ValueError("a third product (fc3) is not supported")
    width = e.sizes(first)[2]
    rows = e.op("Reshape", x, e.constant([1, -1, width]))
    inner = _activated(e, _product(e, rows, first, first_bias), x, activation_type, more)
    results = _product(e, inner, second, second_bias)
    shares = e.op("Transpose", _shares(e, router, k, normalize_routing_weights), perm=[1, 0])
    weighted = e.op("Mul", results, e.op("Unsqueeze", shares, e.constant([2])))
    return e.op("Reshape", e.reduced("ReduceSum", weighted, [0], keepdims=0), e.op("Shape", x))


def _product(e: Expander, x: ir.Value, weights: ir.Value, bias: ir.Value | None) -> ir.Value:
    """[experts, rows, out]: rows times the weights [experts, out, in]."""
    found = e.op("MatMul", x, e.op("Transpose", weights, perm=[0, 2, 1]))
    return found if bias is None else e.op("Add", found, e.op("Unsqueeze", bias, e.constant([1])))


def _shares(e: Expander, router: ir.Value, k: int, normalised: int) -> ir.Value:
    """[rows, experts]: the probabilities of the k most probable experts, 0 for the others."""
    every = e.op("Softmax", router, axis=-1)
    best, places = e.ops("TopK", every, e.constant([k]), outputs=2, axis=-1)
    if normalised:
        best = e.op("Div", best, e.reduced("ReduceSum", best, [-1]))
    nothing = e.op("Mul", every, e.like(router, 0))
    return e.op("ScatterElements", nothing, places, best, axis=1)


def _activated(
    e: Expander, x: ir.Value, like: ir.Value, name: str, more: dict[str, float]
) -> ir.Value:
    """One of the activations of onnxruntime's kernel on CPUs; `like` has the dtype of x."""
    if name == "swiglu" and more.get("swiglu_fusion") == 1:
        return _swiglu(e, x, like, more)
    if name == "relu":
        return e.op("Relu", x)
    if name == "gelu":
        return e.op("Gelu", x, approximate="tanh")
    if name == "silu":
        return e.op("Mul", x, e.op("Sigmoid", x))
    if name == "identity":
        return x
    raise ValueError(f"the activation {name} is not supported")


def _swiglu(e: Expander, x: ir.Value, like: ir.Value, more: dict[str, float]) -> ir.Value:
    """gate sigmoid(alpha gate) (line + beta) of gates and lines that take turns."""
    if more.get("swiglu_limit_after_activation"):
        raise ValueError("a limit behind the activation is not supported")
    gate, line = (
        e.op("Slice", x, *(e.constant([one]) for one in (start, 2**31 - 1, 2, 2)))
        for start in (0, 1)
    )
    if "swiglu_limit" in more:
        least, most = (e.like(like, sign * more["swiglu_limit"]) for sign in (-1, 1))
        gate, line = e.op("Min", gate, most), e.op("Min", e.op("Max", line, least), most)
    slope = e.like(like, more.get("activation_alpha", 1.0))
    offset = e.like(like, more.get("activation_beta", 0.0))
    opened = e.op("Mul", gate, e.op("Sigmoid", e.op("Mul", gate, slope)))
    return e.op("Mul", opened, e.op("Add", line, offset))
