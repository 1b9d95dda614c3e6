"""Registry of expansions: the function that takes each fused or quantised operator apart."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

if TYPE_CHECKING:
    import onnx_ir as ir

FAMILIES = (
    "attention",
    "blocks",
    "composed",
    "einsum",
    "experts",
    "fourier",
    "fused",
    "quantised",
    "quantised_nodes",
    "random_numbers",
    "rotary",
    "scans",
    "sequences",
    "standard_attention",
)
"""The modules of this folder that have expansions."""

Expansion: TypeAlias = "Callable[..., ir.Value | Sequence[ir.Value | None]]"
"""A function `(expander, *inputs, **attributes)` that gives the outputs of a node."""

_FOUND: dict[str, Expansion] = {}
FunctionT = TypeVar("FunctionT", bound=Callable[..., Any])


def expands(*operators: str) -> Callable[[FunctionT], FunctionT]:
    """Register a function for operators: `Einsum`, or `com.microsoft::BiasGelu`."""

    def register(function: FunctionT) -> FunctionT:
        for operator in operators:
            if operator in _FOUND:
                raise ValueError(f"{operator} is registered twice")
            _FOUND[operator] = function
        return function

    return register


def expansions() -> Mapping[str, Expansion]:
    """The expansions of all families, by operator."""
    for family in FAMILIES:
        import_module(f".{family}", __package__)
    return _FOUND
