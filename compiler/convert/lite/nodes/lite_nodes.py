"""Nodes: the nodes and tensors of a .ms model while it is built, graph by graph.

Values have the number of their tensor as key. Tuples of tensors have no tensor of their own.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ....element_types import dtypes
from ....element_types.value_types import ScalarType, TensorType, TupleType
from ...mindir.values import MindirValue, ResultType, tuple_type
from .lite_records import Elements, GraphRecord, LiteRecords, NodeRecord, TensorRecord, permuted


class LiteNodes:
    """One .ms model while it is built; nodes go into the graph that is open."""

    def __init__(self) -> None:
        self.records = LiteRecords()
        self.graph: GraphRecord = self.records.graphs[0]
        self.turned: dict[str, int] = {}
        """Images of the open graph whose channels come last, by those that were made of them."""

        self._tuples: dict[str, Sequence[MindirValue]] = {}
        self._constants: dict[tuple[object, ...], int] = {}
        self._products: dict[str, NodeRecord] = {}

    def node(
        self, primitive: str, inputs: Sequence[Any], kind: ResultType, **attributes: Any
    ) -> MindirValue:
        """A node with one result."""
        (result,) = self.nodes(primitive, inputs, [kind], **attributes)
        return result

    def nodes(
        self, primitive: str, inputs: Sequence[Any], kinds: Sequence[ResultType], **attributes: Any
    ) -> list[MindirValue]:
        """The results of a node with several."""
        taken = [self.number(one) for one in inputs]
        results = [self.tensor(_stored(kind)) for kind in kinds]
        self.graph.nodes.append(len(self.records.nodes))
        self.records.nodes.append(NodeRecord(primitive, taken, results, attributes))
        return [MindirValue(str(one), kind) for one, kind in zip(results, kinds, strict=True)]

    def several(self, values: Sequence[MindirValue]) -> MindirValue:
        """The results of a node as the tuple that MindIR has."""
        key = f"tuple_{len(self._tuples)}"
        self._tuples[key] = values
        return MindirValue(key, tuple_type(values))

    def items(self, value: MindirValue) -> Sequence[MindirValue]:
        """The values of a tuple of tensors."""
        return self._tuples[value.key]

    def number(self, value: Any) -> int:
        """The number of the tensor of a value, an array or a number."""
        if isinstance(value, MindirValue):
            if value.constant is None:
                return int(value.key or self.tensor(_stored(value.type)))  # "": of a fault before
            value = value.constant
        array = np.asarray(value)
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            array = array.astype(np.int32 if isinstance(value, int) else np.float32)
        if isinstance(value, tuple):
            array = array.astype(np.int32)
        identity = (array.dtype.str, array.shape, array.tobytes())
        if identity not in self._constants:
            kind = TensorType(array.dtype, array.shape)
            self._constants[identity] = self.tensor(kind, "", lambda: array)
        return self._constants[identity]

    def reordered(self, weight: MindirValue, order: Sequence[int]) -> MindirValue:
        """A weight, or another value, with its axes in another order."""
        kind = TensorType(weight.dtype, tuple(weight.shape[axis] for axis in order))
        elements = self.records.tensors[self.number(weight)].elements
        if elements is None:
            return self.node("Transpose", [weight, tuple(order)], kind)
        name = self.records.tensors[self.number(weight)].name
        return MindirValue(str(self.tensor(kind, name, permuted(elements, order))), kind)

    def channels_last(self, x: MindirValue) -> MindirValue:
        """An image [N, C, H, W] as [N, H, W, C]; the image that it was made of, if it was."""
        kind = TensorType(x.dtype, tuple(x.shape[axis] for axis in (0, 2, 3, 1)))
        if x.key in self.turned:
            return MindirValue(str(self.turned[x.key]), kind)
        found = self.node("Transpose", [x, (0, 2, 3, 1)], kind)
        self.records.tensors[int(found.key)].last = True
        return found

    def channels_first(self, x: MindirValue, kind: TensorType) -> MindirValue:
        """An image [N, H, W, C] as [N, C, H, W]."""
        found = self.node("Transpose", [x, (0, 3, 1, 2)], kind)
        self.records.tensors[int(x.key)].last = True
        self.turned[found.key] = int(x.key)
        return found

    def product(self, result: MindirValue, source: MindirValue) -> None:
        """Note that a result is that of a product without a bias, which `source` names."""
        number = int(source.key)
        self._products[result.key] = next(
            node for node in reversed(self.records.nodes) if number in node.outputs
        )

    def with_bias(self, x: MindirValue, bias: MindirValue) -> bool:
        """Whether the node of a product took the bias."""
        node = self._products.pop(x.key, None)
        if node is not None:
            node.inputs.append(self.number(bias))
        return node is not None

    def tensor(self, kind: TensorType, name: str = "", elements: Elements | None = None) -> int:
        """The number of a new tensor; `elements` gives those of a constant."""
        number = len(self.records.tensors)
        self.records.tensors.append(TensorRecord(name or f"tensor_{number}", kind, elements))
        return number


def _stored(kind: ResultType) -> TensorType:
    """The type of the tensor that holds a value."""
    if isinstance(kind, TensorType):
        return kind
    if isinstance(kind, ScalarType):
        return TensorType(kind.dtype, ())
    if isinstance(kind, TupleType) and kind.items is not None:
        return TensorType(dtypes.INT32, (len(kind.items),))
    raise ValueError("a value that is neither a tensor nor numbers is not supported")
