"""Registry of operators: finds the function that turns an ONNX node into a torch call.

Operators are registered by name, `domain::Name` outside ONNX's own domain, each in the module of
its family. The semantics are those of https://onnx.ai/onnx/operators/ for opsets 13 to 28, where a
function reads `TorchNode.opset` wherever they differ.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pkgutil import iter_modules
from typing import Any, TypeAlias

from .operator_node import TorchNode

Compute: TypeAlias = Callable[..., Any]
"""Takes a node's inputs (tensors, None where omitted); gives its output, or a tuple of several.

Inputs at the positions `sizes` of the operator may be tuples of integers instead.
"""
Prepare: TypeAlias = Callable[[TorchNode], Compute]


@dataclass(frozen=True, slots=True)
class TorchOperator:
    """How an operator is computed.

    The numbers in the inputs at `sizes` decide the shapes of its outputs, or those `of_data` of all
    inputs. Outputs at `indices` are int64 whatever the dtype of the inputs is. The result of a
    `random` one differs from run to run. An `ordered` one uses only the order of numbers.
    """

    prepare: Prepare
    sizes: tuple[int, ...] = ()
    of_data: bool = False
    indices: tuple[int, ...] = ()
    random: bool = False
    ordered: bool = False


_OPERATORS: dict[str, TorchOperator] = {}


def computes(
    *operators: str,
    sizes: tuple[int, ...] = (),
    of_data: bool = False,
    indices: tuple[int, ...] = (),
    random: bool = False,
    ordered: bool = False,
) -> Callable[[Prepare], Prepare]:
    """Register a function for operators; ValueError for one that is registered already."""

    def register(prepare: Prepare) -> Prepare:
        for operator in operators:
            if operator in _OPERATORS:
                raise ValueError(f"two functions for the operator {operator}")
            _OPERATORS[operator] = TorchOperator(prepare, sizes, of_data, indices, random, ordered)
        return prepare

    return register


def computes_each(functions: dict[str, Compute], ordered: bool = False) -> None:
    """Register functions that compute an operator without attributes as they are."""
    for operator, function in functions.items():
        computes(operator, ordered=ordered)(_as_it_is(function))


def _as_it_is(function: Compute) -> Prepare:
    return lambda node: function


@cache
def known_operators() -> dict[str, TorchOperator]:
    """All operators by name; imports their families."""
    for folder in ("operators", "fused"):
        families = import_module(f"{__package__}.{folder}")
        for module in iter_modules(families.__path__):
            import_module(f"{families.__name__}.{module.name}")
    return _OPERATORS


def operator_name(domain: str, op_type: str) -> str:
    """The name in the registry."""
    return op_type if domain in ("", "ai.onnx") else f"{domain}::{op_type}"


def integers(value: Any) -> list[int]:
    """The numbers of an input at one of the `sizes`."""
    if isinstance(value, tuple):
        return list(value)
    found: list[int] = value.reshape(-1).tolist()
    return found
