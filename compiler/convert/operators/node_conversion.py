"""Node conversion: adds the primitives of one ONNX node to a MindIR graph."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ...element_types.value_types import TensorType
from ...mindir.graph import Constant
from ..mindir.builder import Operand
from ..mindir.graph_builder import GraphBuilder
from ..mindir.values import MindirValue, ResultType, scalar_type


@dataclass(frozen=True, slots=True)
class NodeConversion:
    """The surroundings of one node that is converted; `types` are those of its outputs."""

    builder: GraphBuilder
    types: Sequence[TensorType]
    opset: int

    @property
    def type(self) -> TensorType:
        """The type of the only, or the first, output."""
        return self.types[0]

    @property
    def shape(self) -> tuple[int, ...]:
        """The sizes of the first output, -1 for an open one; ValueError where its rank is open."""
        if self.type.shape is None:
            raise ValueError("the number of dimensions of its result is not known")
        return self.type.shape

    @property
    def rank(self) -> int:
        """The number of dimensions of the first output."""
        return len(self.shape)

    @property
    def open_sizes(self) -> int:
        """How many sizes of the first output are open."""
        return sum(size < 0 for size in self.shape)

    def apply(
        self,
        primitive: str,
        *inputs: Operand,
        type: ResultType | None = None,
        **attributes: Constant,
    ) -> MindirValue:
        """The result of a primitive, by default of the type of the node's first output."""
        kind = self.type if type is None else type
        return self.builder.apply(primitive, *inputs, type=kind, **attributes)

    def reshaped(self, x: MindirValue, shape: tuple[int, ...]) -> MindirValue:
        """The same elements in another shape."""
        return self.apply("Reshape", x, shape, type=TensorType(x.dtype, shape))

    def transposed(self, x: MindirValue, order: tuple[int, ...]) -> MindirValue:
        """The axes in another order."""
        kind = TensorType(x.dtype, tuple(x.shape[axis] for axis in order))
        return self.apply("Transpose", x, order, type=kind)

    def scalars(self, items: Sequence[MindirValue | int]) -> MindirValue | tuple[int, ...]:
        """Numbers as one tuple: a constant one where all are known."""
        if all(isinstance(one, int) for one in items):
            return tuple(one for one in items if isinstance(one, int))
        values = [
            one if isinstance(one, MindirValue) else self.builder.constant(one) for one in items
        ]
        return self.builder.tuple(values)

    def scalar(self, value: MindirValue) -> MindirValue | int:
        """The one element of an integer tensor as a number."""
        if value.constant is not None:
            return int(np.asarray(value.constant).reshape(-1)[0])
        single = self.reshaped(value, ()) if value.shape else value
        return self.apply("TensorToScalar", single, type=scalar_type())

    def numbers(self, value: MindirValue, name: str) -> tuple[int, ...]:
        """The integers of an input that has to be constant; ValueError where the model computes it
        from data.
        """
        if value.constant is None:
            raise ValueError(f"'{name}' is computed by the model: fix its shapes by --inputShape")
        return tuple(int(one) for one in np.asarray(value.constant).reshape(-1))

    def number(self, value: MindirValue, name: str) -> int:
        """The one integer of an input that has to be constant."""
        return self.numbers(value, name)[0]
