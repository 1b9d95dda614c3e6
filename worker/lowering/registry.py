"""The registry of lowerings: which function turns which MindSpore primitive into ONNX nodes."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from typing import Any

from .families import FAMILY_OF

Lower = Callable[..., Any]
_LOWERINGS: dict[str, Lowering] = {}


@dataclass(frozen=True, slots=True)
class Lowering:
    """One primitive's lowering; its arguments are found by the function's signature."""

    primitive: str
    function: Lower

    def bind(self, inputs: Sequence[Any], attributes: Mapping[str, Any]) -> tuple[list[Any], dict[str, Any]]:
        """Match a node's inputs and attributes with the function's parameters.

        Positional parameters take the inputs in order, and where a file of the old style has fewer inputs, the
        attribute of that name, else the default. Keyword-only parameters take attributes. A
        `*items` parameter takes all remaining inputs. Inputs beyond the last parameter are dropped (notes
        such as Range's maxlen). ValueError names what is missing.
        """
        args: list[Any] = []
        keywords: dict[str, Any] = {}
        for index, parameter in enumerate(_parameters(self.function)):
            if parameter.kind is parameter.VAR_POSITIONAL:
                args.extend(inputs[index:])
            elif parameter.kind is parameter.KEYWORD_ONLY:
                keywords[parameter.name] = self._attribute(parameter, attributes)
            else:
                given = index < len(inputs)
                args.append(inputs[index] if given else self._attribute(parameter, attributes))
        return args, keywords

    def _attribute(self, parameter: inspect.Parameter, attributes: Mapping[str, Any]) -> Any:
        if parameter.name in attributes:
            return attributes[parameter.name]
        if parameter.default is parameter.empty:
            raise ValueError(f"{self.primitive} has neither an input nor an attribute '{parameter.name}'")
        return parameter.default


def lowers(*primitives: str) -> Callable[[Lower], Lower]:
    """Register a function `(builder, *arguments, **attributes) -> value` for the primitives named."""

    def register(function: Lower) -> Lower:
        for primitive in primitives:
            if primitive in _LOWERINGS:
                raise ValueError(f"two lowerings for the primitive {primitive}")
            _LOWERINGS[primitive] = Lowering(primitive, function)
        return function

    return register


def lowering_of(primitive: str) -> Lowering | None:
    """The lowering of a primitive, None where there is none; its family is imported if it has not been yet."""
    if primitive not in _LOWERINGS and primitive in FAMILY_OF:
        import_module(f".{FAMILY_OF[primitive]}", __package__)
    return _LOWERINGS.get(primitive)


def is_supported(primitive: str) -> bool:
    """Whether a primitive has a lowering; imports nothing."""
    return primitive in FAMILY_OF


def supported() -> list[str]:
    """All primitives with a lowering, sorted."""
    return sorted(FAMILY_OF)


@cache
def _parameters(function: Lower) -> tuple[inspect.Parameter, ...]:
    """A lowering's parameters behind the builder; looked at on first use, as it takes longer than a lowering."""
    return tuple(inspect.signature(function).parameters.values())[1:]
