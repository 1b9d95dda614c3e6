"""Registry of conversions: the function that turns each ONNX operator into primitives."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from inspect import Parameter, signature
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from ..mindir.values import MindirValue

if TYPE_CHECKING:
    from .node_conversion import NodeConversion

FAMILIES = (
    "activation",
    "arithmetic",
    "bits",
    "blocks",
    "collective",
    "compare",
    "convolution",
    "create",
    "gather",
    "linear",
    "lstm",
    "normalise",
    "pool",
    "random_numbers",
    "recurrent",
    "reduce",
    "resize",
    "sample",
    "scatter",
    "shape",
    "sort",
    "transposed_convolution",
)
"""The modules of this folder that have conversions."""

Results = MindirValue | Sequence[MindirValue]


class ConversionFunction(Protocol):
    """A function `(conversion, *inputs, **attributes) -> results` for one ONNX operator.

    Positional parameters take the inputs in order, None for one that is left out. Keyword-only
    parameters take the attributes of their names.
    """

    def __call__(self, c: NodeConversion, /, *inputs: Any, **attributes: Any) -> Results:
        """The outputs of the node, in order."""


@dataclass(frozen=True)
class OperatorConversion:
    """The conversion of one operator; `variant` are the arguments it was registered with."""

    function: ConversionFunction
    variant: Mapping[str, object]

    def convert(
        self,
        conversion: NodeConversion,
        inputs: Sequence[MindirValue | None],
        attributes: Mapping[str, object],
    ) -> Results:
        """The outputs of a node; ValueError for attributes and inputs that it cannot take."""
        unknown = sorted(set(attributes) - self._keywords)
        if unknown:
            raise ValueError(f"the attribute '{unknown[0]}' is not supported")
        return self.function(conversion, *inputs, **attributes, **self.variant)

    @cached_property
    def _keywords(self) -> frozenset[str]:
        parameters = signature(self.function).parameters.values()
        names = [one.name for one in parameters if one.kind is Parameter.KEYWORD_ONLY]
        return frozenset(names) - frozenset(self.variant)


_FOUND: dict[str, OperatorConversion] = {}
FunctionT = TypeVar("FunctionT", bound=Callable[..., Any])


def converts(*operators: str, **variant: object) -> Callable[[FunctionT], FunctionT]:
    """Register a function for operators: `Relu`, or `com.microsoft::Gelu`."""

    def register(function: FunctionT) -> FunctionT:
        for operator in operators:
            if operator in _FOUND:
                raise ValueError(f"{operator} is registered twice")
            _FOUND[operator] = OperatorConversion(function, variant)
        return function

    return register


def conversions() -> Mapping[str, OperatorConversion]:
    """The conversions of all families, by operator."""
    for family in FAMILIES:
        import_module(f".{family}", __package__)
    return _FOUND
