"""Elementwise functions: arithmetic of one tensor, two or many."""

from __future__ import annotations

from functools import reduce
from typing import Any

import torch

from ..numbers.unsigned import quotient, remainder
from ..operator_node import TorchNode
from ..registry import Compute, computes, computes_each

computes_each(
    {
        "Acos": torch.acos,
        "Acosh": torch.acosh,
        "Add": torch.add,
        "Asin": torch.asin,
        "Asinh": torch.asinh,
        "Atan": torch.atan,
        "Atanh": torch.atanh,
        "Ceil": torch.ceil,
        "Cos": torch.cos,
        "Cosh": torch.cosh,
        "Erf": torch.erf,
        "Exp": torch.exp,
        "Floor": torch.floor,
        "IsNaN": torch.isnan,
        "Log": torch.log,
        "Mul": torch.mul,
        "Neg": torch.neg,
        "Reciprocal": torch.reciprocal,
        "Round": torch.round,
        "Sin": torch.sin,
        "Sinh": torch.sinh,
        "Sqrt": torch.sqrt,
        "Sub": torch.sub,
        "Tan": torch.tan,
        "Tanh": torch.tanh,
    }
)


@computes("Abs")
def absolute(node: TorchNode) -> Compute:
    """Distance from zero."""
    return lambda x: torch.abs(x) if x.dtype.is_signed else x


@computes("Sign")
def sign(node: TorchNode) -> Compute:
    """-1, 0 or 1."""
    return lambda x: torch.sign(x) if x.dtype.is_signed else (x != 0).to(x.dtype)


def _is_whole(x: torch.Tensor) -> bool:
    return not (x.dtype.is_floating_point or x.dtype.is_complex)


@computes("Div")
def div(node: TorchNode) -> Compute:
    """Quotient; of integers towards zero."""

    def run(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        if not _is_whole(x):
            return torch.div(x, y)
        return quotient(x, y) if x.dtype == torch.uint64 else torch.div(x, y, rounding_mode="trunc")

    return run


@computes("Mod")
def mod(node: TorchNode) -> Compute:
    """Remainder with the sign of the divisor, or with fmod of the dividend."""
    function: Compute = torch.fmod if node.integer("fmod") else torch.remainder
    return lambda x, y: remainder(x, y) if x.dtype == torch.uint64 else function(x, y)


@computes("Pow")
def power(node: TorchNode) -> Compute:
    """Power in the dtype of the base, whatever that of the exponent is."""
    constant = node.constants.get(1)
    if constant is not None and constant.dim() == 0:
        exponent = constant.item()
        return lambda x, y: _raised(x, exponent)

    def run(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        if not _is_whole(x):
            return torch.pow(x, y).to(x.dtype)
        if _is_whole(y):
            return torch.pow(x, y.to(x.dtype))
        return torch.pow(x.to(torch.float64), y).to(x.dtype)

    return run


def _raised(x: torch.Tensor, exponent: float) -> torch.Tensor:
    """x to the power of one number; of integers exactly, where that number is one."""
    if not _is_whole(x):
        return torch.pow(x, exponent).to(x.dtype)
    if exponent >= 0 and float(exponent).is_integer():
        return torch.pow(x, int(exponent))
    return torch.pow(x.to(torch.float64), exponent).to(x.dtype)


@computes("Max", ordered=True)
def maximum(node: TorchNode) -> Compute:
    """Largest of all inputs; NaN where one is."""
    return lambda *inputs: reduce(torch.maximum, inputs)


@computes("Min", ordered=True)
def minimum(node: TorchNode) -> Compute:
    """Smallest of all inputs; NaN where one is."""
    return lambda *inputs: reduce(torch.minimum, inputs)


@computes("Sum")
def total(node: TorchNode) -> Compute:
    """Sum of all inputs."""
    return lambda *inputs: reduce(torch.add, inputs)


@computes("Mean")
def mean(node: TorchNode) -> Compute:
    """Mean of all inputs."""
    return lambda *inputs: reduce(torch.add, inputs) / len(inputs)


@computes("Clip", ordered=True)
def clip(node: TorchNode) -> Compute:
    """Numbers between two bounds, of which either may be missing."""
    low, high = (_bound(node, at) for at in (1, 2))
    if node.opset < 11:
        low, high = node.real("min", -3.4028234e38), node.real("max", 3.4028234e38)

    def run(x: torch.Tensor, lowest: Any = None, highest: Any = None) -> torch.Tensor:
        least = lowest if low is None else low
        most = highest if high is None else high
        return x if least is None and most is None else _clamped(x, least, most)

    return run


def _bound(node: TorchNode, at: int) -> Any:
    """A constant bound as a number; those of uint64 stay tensors, which keep their order."""
    found = node.constants.get(at)
    if found is None or found.numel() != 1 or found.dtype == torch.uint64:
        return None
    return found.item()


def _clamped(x: torch.Tensor, least: Any, most: Any) -> torch.Tensor:
    if isinstance(least, torch.Tensor) == isinstance(most, torch.Tensor):
        return torch.clamp(x, least, most)
    return torch.clamp(x, *(_as_tensor(one, x) for one in (least, most)))


def _as_tensor(bound: Any, x: torch.Tensor) -> torch.Tensor | None:
    if bound is None or isinstance(bound, torch.Tensor):
        return bound
    return torch.full((), bound, dtype=x.dtype, device=x.device)


@computes("IsInf")
def is_inf(node: TorchNode) -> Compute:
    """Whether numbers are infinite, of either sign or of one."""
    above, below = node.integer("detect_positive", 1), node.integer("detect_negative", 1)
    if not above and not below:
        return lambda x: torch.zeros_like(x, dtype=torch.bool)
    one_sign: Compute = torch.isposinf if above else torch.isneginf
    return one_sign if not (above and below) else lambda x: torch.isinf(x)
