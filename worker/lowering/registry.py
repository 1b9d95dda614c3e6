"""The registry of lowerings: which function turns which MindSpore primitive into ONNX nodes."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Lower = Callable[..., Any]
_LOWERINGS: dict[str, Lowering] = {}


@dataclass(frozen=True, slots=True)
class Lowering:
    """One primitive's lowering and the signature by which its arguments are found."""

    primitive: str
    function: Lower
    parameters: tuple[inspect.Parameter, ...]

    def bind(self, inputs: Sequence[Any], attributes: Mapping[str, Any]) -> tuple[list[Any], dict[str, Any]]:
        """Match a node's inputs and attributes with the function's parameters.

        Positional parameters take the inputs in order, and where a file of the old style has fewer inputs, the
        attribute of that name, else the default. Keyword-only parameters take attributes. A
        `*items` parameter takes all remaining inputs. Inputs beyond the last parameter are dropped (notes
        such as Range's maxlen). ValueError names what is missing.
        """
        args: list[Any] = []
        keywords: dict[str, Any] = {}
        for index, parameter in enumerate(self.parameters):
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
        parameters = tuple(inspect.signature(function).parameters.values())[1:]
        for primitive in primitives:
            if primitive in _LOWERINGS:
                raise ValueError(f"two lowerings for the primitive {primitive}")
            _LOWERINGS[primitive] = Lowering(primitive, function, parameters)
        return function

    return register


def lowering_of(primitive: str) -> Lowering | None:
    """The lowering of a primitive, None where there is none."""
    return _LOWERINGS.get(primitive)


def supported() -> list[str]:
    """All primitives with a lowering, sorted."""
    return sorted(_LOWERINGS)
