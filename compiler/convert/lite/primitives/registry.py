"""Registry of translations: the function that turns each of MindIR's primitives into .ms nodes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from ...mindir.values import MindirValue, ResultType

if TYPE_CHECKING:
    from ..nodes.lite_nodes import LiteNodes

FAMILIES = ("elements", "images", "places", "products", "shapes")
"""The modules of this folder."""


class Translation(Protocol):
    """A function `(builder, type, *inputs, **attributes) -> value` for one primitive.

    Its inputs are those that the primitive has in MindIR, `type` is that of its result.
    """

    def __call__(
        self, b: LiteNodes, kind: ResultType, /, *inputs: Any, **attributes: Any
    ) -> MindirValue:
        """The primitive's result."""


_FOUND: dict[str, Translation] = {}
FunctionT = TypeVar("FunctionT", bound=Callable[..., MindirValue])


def translates(*primitives: str, **variant: object) -> Callable[[FunctionT], FunctionT]:
    """Register a function for primitives, with further arguments for these."""

    def register(function: FunctionT) -> FunctionT:
        for primitive in primitives:
            if primitive in _FOUND:
                raise ValueError(f"{primitive} is registered twice")
            _FOUND[primitive] = _varied(function, variant) if variant else function
        return function

    return register


def _varied(function: Callable[..., MindirValue], variant: dict[str, object]) -> Translation:
    def translate(
        b: LiteNodes, kind: ResultType, /, *inputs: Any, **attributes: Any
    ) -> MindirValue:
        return function(b, kind, *inputs, **attributes, **variant)

    return translate


def translation(primitive: str) -> Translation:
    """The translation of a primitive; ValueError where .ms files have none like it."""
    for family in FAMILIES:
        import_module(f".{family}", __package__)
    if primitive not in _FOUND:
        raise ValueError(f"MindSpore Lite has no primitive like {primitive}")
    return _FOUND[primitive]


def numbers(value: MindirValue, what: str) -> Sequence[int]:
    """Constant integers; ValueError for those that the model computes."""
    if value.constant is None:
        raise ValueError(f"{what} is computed by the model: fix its shapes by --inputShape")
    found = value.constant
    return tuple(found) if isinstance(found, tuple) else (int(found),)
