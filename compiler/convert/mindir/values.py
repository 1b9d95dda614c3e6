"""Values of a MindIR graph that is built: name the results of its nodes, with their types."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from ...element_types.value_types import ScalarType, TensorType, TupleType, ValueType
from ...mindir.graph import Constant


@dataclass(frozen=True, slots=True)
class ClosureType:
    """The type of a function with some of its arguments; several where a Switch chooses one."""

    functions: tuple[str, ...]


ResultType: TypeAlias = "ValueType | ClosureType"


@dataclass(frozen=True, slots=True)
class MindirValue:
    """A value by its name in the graph, with its type. `constant` is that of a constant."""

    key: str
    type: ResultType
    constant: Constant = None

    @property
    def dtype(self) -> np.dtype[np.generic]:
        """The dtype of a tensor."""
        assert isinstance(self.type, TensorType)
        return self.type.dtype

    @property
    def shape(self) -> tuple[int, ...]:
        """The sizes of a tensor, -1 for an open one."""
        assert isinstance(self.type, TensorType) and self.type.shape is not None
        return self.type.shape

    @property
    def rank(self) -> int:
        """The number of dimensions of a tensor."""
        return len(self.shape)


def type_of_constant(value: Constant) -> ValueType:
    """The type of a constant, as nodes that compute with it need it."""
    if isinstance(value, np.ndarray):
        return TensorType(value.dtype, value.shape)
    if isinstance(value, tuple):
        return TupleType(tuple(type_of_constant(one) for one in value))
    if isinstance(value, bool):
        return ScalarType(np.dtype(np.bool_))
    return ScalarType(np.dtype(np.float32 if isinstance(value, float) else np.int64))


def scalar_type() -> ScalarType:
    """The type of a whole number of Python."""
    return ScalarType(np.dtype(np.int64))


def tuple_type(items: Sequence[MindirValue]) -> TupleType:
    """The type of several values as one."""
    types = [one.type for one in items]
    return TupleType(tuple(one for one in types if not isinstance(one, ClosureType)))
