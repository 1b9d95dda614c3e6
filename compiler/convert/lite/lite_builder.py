"""Builder of a .ms model: takes MindIR's primitives, and adds those of .ms files.

It stands in the place of the builder of MindIR, and so knows its words. Values have the number of
their tensor as key. Tuples of numbers are tensors of one dimension here, numbers are tensors
without dimensions, and tuples of tensors are taken apart at once.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...element_types import dtypes
from ...element_types.value_types import ScalarType, TensorType, TupleType
from ...mindir.graph import Constant
from ..mindir.values import MindirValue, ResultType, tuple_type, type_of_constant
from .nodes.lite_nodes import LiteNodes
from .nodes.lite_records import Elements, GraphRecord
from .primitives.registry import translation

_COUNT = TensorType(dtypes.INT32, ())


class LiteBuilder(LiteNodes):
    """One .ms model while it is built; nodes go into the graph that is open."""

    def __init__(self) -> None:
        super().__init__()
        self._functions: dict[str, int] = {}
        self._weights: list[Elements | None] = []

    def input(self, name: str, kind: TensorType) -> MindirValue:
        """An input of the graph, by the name that users know."""
        number = self.tensor(kind, name)
        self.graph.inputs.append(number)
        return MindirValue(str(number), kind)

    def weight(self, name: str, kind: TensorType) -> MindirValue:
        """A parameter; `give_elements` says what its elements are."""
        at = len(self._weights)
        self._weights.append(None)
        number = self.tensor(kind, name, lambda: self._elements_of(at))
        return MindirValue(str(number), kind)

    def give_elements(self, weights: Sequence[Elements]) -> None:
        """The elements of all parameters, in their order."""
        self._weights[:] = weights

    def name_outputs(self, names: Sequence[str]) -> None:
        """Give the results of the entry graph their names."""
        for number, name in zip(self.records.graphs[0].outputs, names, strict=True):
            self.records.tensors[number].name = name

    def constant(self, value: Constant) -> MindirValue:
        """A constant: a tensor when a node takes it."""
        return MindirValue("", type_of_constant(value), value)

    def apply(
        self, primitive: str, *inputs: Any, type: ResultType, **attributes: Constant
    ) -> MindirValue:
        """The result of one of MindIR's primitives; ValueError where .ms files have none like."""
        operands = [one if isinstance(one, MindirValue) else self.constant(one) for one in inputs]
        return translation(primitive)(self, type, *operands, **attributes)

    def tuple(self, items: Sequence[MindirValue]) -> MindirValue:
        """Several values as one; numbers become a tensor of one dimension."""
        if items and all(isinstance(one.type, ScalarType) for one in items):
            return self._vector(items)
        key = f"tuple_{len(self._tuples)}"
        self._tuples[key] = tuple(items)
        return MindirValue(key, tuple_type(items))

    def item(self, value: MindirValue, index: int) -> MindirValue:
        """One of the values of a tuple; of numbers, an element of their tensor."""
        if value.key in self._tuples:
            return self._tuples[value.key][index]
        kind = TensorType(dtypes.INT32, ())
        found = self.node("Gather", [value, np.asarray(index, np.int32), _axis(0)], kind)
        return MindirValue(found.key, ScalarType(dtypes.INT64))

    @contextmanager
    def function(self, word: str) -> Iterator[str]:
        """A new function, into which nodes go meanwhile; gives its name."""
        outer, turned = self.graph, self.turned
        name = f"{word}_{len(self.records.graphs)}"
        self._functions[name] = len(self.records.graphs)
        self.graph, self.turned = GraphRecord(name), {}
        self.records.graphs.append(self.graph)
        try:
            yield name
        finally:
            self.graph, self.turned = outer, turned

    def bound(self, function: str, inputs: Sequence[MindirValue]) -> MindirValue:
        """A function with its arguments, which is not called yet."""
        attributes = {"sub_graph_index": self._functions[function]}
        return self.node("PartialFusion", inputs, _COUNT, **attributes)

    def chosen(
        self, condition: MindirValue, yes: MindirValue, no: MindirValue, type: ResultType
    ) -> MindirValue:
        """The result of one of two bound functions."""
        closure = self.node("Switch", [condition, yes, no], _COUNT)
        return self._called(closure, type)

    def call(self, function: str, *inputs: MindirValue, type: ResultType) -> MindirValue:
        """The result of a function of the model."""
        return self._called(self.bound(function, inputs), type)

    def after(self, value: MindirValue, other: MindirValue) -> MindirValue:
        """A value, once another was computed."""
        return self.node("Depend", [value, other], value.type)

    def returned(self, outputs: Sequence[MindirValue]) -> None:
        """End the graph with its results."""
        flat = [one for value in outputs for one in self._tuples.get(value.key, [value])]
        self.graph.outputs = [self._result(one) for one in flat]

    def _called(self, closure: MindirValue, type: ResultType) -> MindirValue:
        if isinstance(type, TupleType):
            return self.several(self.nodes("Call", [closure], type.items or ()))
        return self.node("Call", [closure], type)

    def _vector(self, items: Sequence[MindirValue]) -> MindirValue:
        one = TensorType(dtypes.INT32, (1,))
        parts = []
        for item in items:
            if item.constant is not None:
                parts.append(self.constant(np.asarray([item.constant], np.int32)))
            else:
                small = self.node("Cast", [item, dtypes.to_type_id(dtypes.INT32)], _COUNT)
                parts.append(self.node("Reshape", [small, (1,)], one))
        kind = TensorType(dtypes.INT32, (len(items),))
        found = self.node("Concat", parts, kind, axis=0)
        return MindirValue(found.key, tuple_type(items))

    def _result(self, value: MindirValue) -> int:
        """A result of the graph: a copy of an input or of a constant, and not that itself."""
        number = self.number(value)
        made = {one for at in self.graph.nodes for one in self.records.nodes[at].outputs}
        if number in made and number not in self.graph.outputs:
            return number
        kind = self.records.tensors[number].type
        copied = self.node("Reshape", [MindirValue(str(number), kind), _shape(kind)], kind)
        return int(copied.key)

    def _elements_of(self, at: int) -> NDArray[Any]:
        found = self._weights[at]
        assert found is not None
        return found()


def _axis(axis: int) -> NDArray[Any]:
    return np.asarray(axis, np.int32)


def _shape(kind: TensorType) -> tuple[int, ...]:
    """The sizes of a copy: 0 keeps one."""
    shape = kind.shape or ()
    return shape if min(shape, default=0) >= 0 else (0,) * len(shape)
