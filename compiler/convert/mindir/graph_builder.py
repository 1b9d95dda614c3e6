"""Graph builder: takes the primitives of a conversion, for a file of either form."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Protocol

from ...element_types.value_types import TensorType
from ...mindir.graph import Constant
from .builder import Operand
from .values import MindirValue, ResultType


class GraphBuilder(Protocol):
    """A model while it is built; see MindirBuilder and LiteBuilder."""

    def input(self, name: str, kind: TensorType) -> MindirValue:
        """An input of the graph."""

    def weight(self, name: str, kind: TensorType) -> MindirValue:
        """A parameter."""

    def constant(self, value: Constant) -> MindirValue:
        """A constant."""

    def apply(
        self, primitive: str, *inputs: Operand, type: ResultType, **attributes: Constant
    ) -> MindirValue:
        """The result of a primitive of MindIR."""

    def function(self, word: str) -> AbstractContextManager[str]:
        """A new function, into which nodes go meanwhile; gives its name."""

    def bound(self, function: str, inputs: Sequence[MindirValue]) -> MindirValue:
        """A function with its arguments, which is not called yet."""

    def chosen(
        self, condition: MindirValue, yes: MindirValue, no: MindirValue, type: ResultType
    ) -> MindirValue:
        """The result of one of two bound functions."""

    def call(self, function: str, *inputs: Operand, type: ResultType) -> MindirValue:
        """The result of a function of the model."""

    def tuple(self, items: Sequence[MindirValue]) -> MindirValue:
        """Several values as one."""

    def item(self, value: MindirValue, index: int) -> MindirValue:
        """One of the values of a tuple."""

    def after(self, value: MindirValue, other: MindirValue) -> MindirValue:
        """A value, once another was computed."""

    def returned(self, outputs: Sequence[MindirValue]) -> None:
        """End the graph with its results."""
