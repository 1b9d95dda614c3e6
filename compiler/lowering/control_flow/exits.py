"""Exits of a piece of a graph: the functions it may go on with, and what it hands to each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import prod

import numpy as np
from onnx import NodeProto

from ...element_types.value_types import TensorType, TupleType, ValueType
from ...mindir.graph import MindirModel
from ..builder import Builder, OnnxTensor, Value
from .trees import leaves

RETURN = ""
"""The option of returning to the caller; every other option is the name of a function."""
CHANGING_TUPLES = "is a loop that carries tuples of changing length or changing functions"
_MOST_KEPT = 4096  # elements of a constant that is kept in the model


@dataclass(frozen=True, slots=True)
class Exits:
    """The options of a piece of a graph, each with its payload, and the option taken.

    A payload is the tree of all that is handed on. `taken` is the number of the option, known now
    or at run time. Payloads of the options not taken hold anything of the right dtypes.
    """

    options: Mapping[str, Value]
    taken: int | OnnxTensor


@dataclass(frozen=True, slots=True)
class LoweredBranch:
    """Nodes that run on a condition, and their exits."""

    nodes: list[NodeProto]
    exits: Exits


@dataclass(frozen=True, slots=True)
class ControlFlowPosition:
    """The loops of a frame that surround a node, and the branches inside the last of them.

    `returns` is the type of what the frame returns. `untaken` are the leaves that stand in the
    payload of a loop's header where the header is not called.
    """

    returns: ValueType | None = None
    headers: tuple[str, ...] = ()
    branches: int = 0
    untaken: Mapping[str, Sequence[Value]] = field(default_factory=dict)

    def check_payload(self, option: str, payload: Value) -> None:
        """Raise ValueError for a payload that has not as many leaves as it has untaken."""
        if option in self.untaken and len(self.untaken[option]) != len(leaves(payload)):
            raise ValueError(CHANGING_TUPLES)

    def untaken_leaf(self, option: str, index: int) -> Value:
        """The leaf that stands in a payload that is not taken; None where any will do."""
        return self.untaken[option][index] if option in self.untaken else None


class PayloadTypes:
    """The recorded types of payloads: arguments or a result, and the assigned parameters."""

    def __init__(self, model: MindirModel, returns: ValueType | None, variables: TupleType) -> None:
        self._model = model
        self._returns = returns
        self._variables = variables

    def of(self, option: str) -> ValueType | None:
        """The type of an option's payload; None where there is no record."""
        if option == RETURN:
            results = None if self._returns is None else TupleType((self._returns,))
            return results and TupleType((results, self._variables))
        inputs = tuple(argument.type for argument in self._model.functions[option].inputs)
        return TupleType((TupleType(inputs), self._variables))


def anything_like(b: Builder, like: OnnxTensor, kind: ValueType | None) -> OnnxTensor:
    """A tensor of the dtype and shape of another, as far as they are known."""
    shape = kind.shape if isinstance(kind, TensorType) else like.shape
    sizes = (0,) if shape is None else tuple(max(dim, 0) for dim in shape)
    if prod(sizes) <= _MOST_KEPT:
        return b.tensor(np.zeros(sizes, like.dtype))
    zero = b.tensor(np.zeros((), like.dtype))
    return b.op("Expand", zero, b.ints(sizes), type=TensorType(like.dtype, sizes))
