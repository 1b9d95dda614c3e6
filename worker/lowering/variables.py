"""Parameters that a model assigns to: what stands in them while it is lowered."""

from __future__ import annotations

from dataclasses import dataclass

from ..mindir.graph import Model, TensorType, TupleType
from .builder import Builder, Tensor, Value
from .families import FAMILIES

ASSIGNING = frozenset(FAMILIES["state"])
"""Primitives whose first input is a parameter that keeps the result."""


@dataclass(frozen=True, slots=True)
class Variable:
    """A parameter that the model assigns to, by its key: a place, whose value depends on when one looks."""

    key: str


class FoundVariable(Exception):
    """A parameter turned out to be assigned to: lowering starts again, knowing that."""

    def __init__(self, key: str) -> None:
        super().__init__(key)
        self.key = key


class Variables:
    """The parameters of `keys` and the tensor that stands in each at the point that lowering has reached."""

    def __init__(self, model: Model, keys: tuple[str, ...]) -> None:
        self._weights = {key: model.weights[key] for key in keys}
        self._initial: dict[str, Tensor] = {}
        self._now: dict[str, Tensor] = {}

    def __contains__(self, key: object) -> bool:
        return key in self._weights

    @property
    def keys(self) -> tuple[str, ...]:
        """The parameters' keys."""
        return tuple(self._weights)

    @property
    def types(self) -> TupleType:
        """The types of all of them."""
        return TupleType(tuple(TensorType(weight.dtype, weight.shape) for weight in self._weights.values()))

    def start(self, key: str, initial: Tensor) -> None:
        """The value that a parameter has when a request begins."""
        self._initial[key] = self._now[key] = initial

    def read(self, value: Value) -> Value:
        """A value with what stands in the parameters now, in tuples too."""
        if isinstance(value, Variable):
            return self._now[value.key]
        if isinstance(value, tuple) and self._weights:
            return tuple(self.read(item) for item in value)
        return value

    def write(self, b: Builder, variable: Variable, value: Value) -> Tensor:
        """Let `value` stand in a parameter from now on."""
        old = self._now[variable.key]
        new = b.cast(b.tensor(value, old.dtype), old.dtype)
        self._now[variable.key] = Tensor(new.name, old.dtype, old.shape)
        return self._now[variable.key]

    @property
    def all(self) -> tuple[Tensor, ...]:
        """What stands in all of them now."""
        return tuple(self._now.values())

    @all.setter
    def all(self, tensors: tuple[Tensor, ...]) -> None:
        self._now = dict(zip(self._now, tensors, strict=True))

    @property
    def changed(self) -> list[tuple[Tensor, Tensor]]:
        """Those that a request leaves with another value: what it found and what it leaves."""
        return [(self._initial[key], now) for key, now in self._now.items() if now.name != self._initial[key].name]
