"""Registry of lowerings: the function that turns each MindSpore primitive into ONNX nodes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from inspect import Parameter, signature
from typing import Protocol, TypeVar

from .builder import Builder
from .families import FAMILIES, FAMILY_OF
from .lite_families import LITE_FAMILY_OF
from .tensor import Value

ASSIGNING = frozenset(FAMILIES["state"])
"""Primitives whose first input is a parameter that keeps the result."""
IN_PLACE = frozenset(FAMILIES["inplace"])
"""Primitives that overwrite their first input."""
COLLECTIVES = frozenset(FAMILIES["collective"])
"""Primitives that communicate with other ranks."""


class LoweringFunction(Protocol):
    """A function `(builder, *inputs, **attributes) -> value` that adds one primitive's ONNX nodes.

    Its parameter names are MindSpore's, as older files have attributes in place of inputs.
    """

    def __call__(self, b: Builder, /, *inputs: Value, **attributes: Value) -> Value:
        """The primitive's result."""


@dataclass(frozen=True)
class Lowering:
    """The lowering of one primitive; `variant` are the arguments that it was registered with."""

    primitive: str
    function: LoweringFunction
    variant: Mapping[str, object]

    def lower(
        self, b: Builder, inputs: Sequence[Value], attributes: Mapping[str, Value] | None = None
    ) -> Value:
        """The result of the primitive for a node's inputs and attributes.

        Positional parameters take the inputs in order. Where a file of the old style has fewer
        inputs, they take the attribute of their name, else the default. Keyword-only parameters
        take attributes. A `*items` parameter takes all remaining inputs. Inputs beyond the last
        parameter are dropped (notes such as Range's maxlen). ValueError names what is missing.
        """
        given = attributes or {}
        args: list[Value] = []
        keywords = dict(self.variant)
        for index, (name, kind, default) in enumerate(self._parameters):
            if kind is Parameter.VAR_POSITIONAL:
                args.extend(inputs[index:])
            elif kind is Parameter.KEYWORD_ONLY:
                keywords[name] = self._attribute(name, default, given)
            elif index < len(inputs):
                args.append(inputs[index])
            else:
                args.append(self._attribute(name, default, given))
        return self.function(b, *args, **keywords)

    @cached_property
    def _parameters(self) -> tuple[tuple[str, object, Value], ...]:
        """(name, kind, default) of each parameter, without the builder and the variant."""
        parameters = list(signature(self.function).parameters.values())[1:]
        return tuple(
            (one.name, one.kind, one.default) for one in parameters if one.name not in self.variant
        )

    def _attribute(self, name: str, default: Value, attributes: Mapping[str, Value]) -> Value:
        if name in attributes:
            return attributes[name]
        if default is Parameter.empty:
            raise ValueError(f"{self.primitive} has neither an input nor an attribute '{name}'")
        return default


_LOWERINGS: dict[str, Lowering] = {}
_F = TypeVar("_F", bound=LoweringFunction)


def lowers(*primitives: str, **variant: object) -> Callable[[_F], _F]:
    """Register a function for the primitives named.

    `variant` are keyword-only arguments that it gets for these: so one function may serve several
    primitives. ValueError for a primitive that has a lowering.
    """

    def register(function: _F) -> _F:
        for primitive in primitives:
            if primitive in _LOWERINGS:
                raise ValueError(f"two lowerings for the primitive {primitive}")
            _LOWERINGS[primitive] = Lowering(primitive, function, variant)
        return function

    return register


def lowers_each(parameter: str, variants: Mapping[str, object]) -> Callable[[_F], _F]:
    """Register a function for each primitive of a table, which has the argument for `parameter`."""

    def register(function: _F) -> _F:
        for primitive, value in variants.items():
            lowers(primitive, **{parameter: value})(function)
        return function

    return register


def lowering_of(primitive: str) -> Lowering:
    """The lowering of a primitive; imports its family. KeyError where there is none."""
    if primitive not in _LOWERINGS:
        lite = LITE_FAMILY_OF.get(primitive)
        family = f"lite.{lite}" if lite else f"primitives.{FAMILY_OF[primitive]}"
        import_module(f"..{family}", __package__)
    return _LOWERINGS[primitive]


def is_supported(primitive: str) -> bool:
    """Whether a primitive has a lowering; imports nothing."""
    return primitive in FAMILY_OF or primitive in LITE_FAMILY_OF


def supported() -> list[str]:
    """All primitives of MindIR with a lowering, sorted."""
    return sorted(FAMILY_OF)


def registered() -> Iterator[tuple[str, str]]:
    """(primitive, module) of each lowering whose family was imported."""
    for primitive, lowering in _LOWERINGS.items():
        yield primitive, lowering.function.__module__
