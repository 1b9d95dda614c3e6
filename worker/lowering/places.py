"""Where in the flow of control lowering is, and what the ways out of there are called."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..mindir.graph import Model, TupleType, ValueType
from .builder import Value
from .exits import RETURN


@dataclass(frozen=True, slots=True)
class Place:
    """Where in the control flow of a frame lowering is: inside which loops, and inside how many branches of the last.

    `returns` is the type of what the frame returns, `untaken` what the loops' headers get where they are not called.
    """

    returns: ValueType | None = None
    headers: tuple[str, ...] = ()
    branches: int = 0
    untaken: Mapping[str, Sequence[Value]] = field(default_factory=dict)


class Numbers(dict[str, int]):
    """A number for every option, for choosing at run time."""

    def __missing__(self, name: str) -> int:
        self[name] = len(self)
        return self[name]


class Kinds(dict[str, "ValueType | None"]):
    """The recorded type of each option's payload: arguments or result, and the assigned parameters."""

    def __init__(self, model: Model, returns: ValueType | None, variables: TupleType) -> None:
        one = None if returns is None else TupleType((returns,))
        super().__init__({RETURN: one and TupleType((one, variables))})
        self._model, self._variables = model, variables

    def get(self, name: str, default: Any = None) -> ValueType | None:
        """The type of one option's payload."""
        if name not in self:
            inputs = TupleType(tuple(argument.type for argument in self._model.functions[name].inputs))
            self[name] = TupleType((inputs, self._variables))
        return self[name]
