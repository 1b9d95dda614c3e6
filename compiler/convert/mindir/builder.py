"""Builder of a MindIR model: adds nodes, constants, weights and functions to its graphs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TypeAlias

import numpy as np

from ...element_types.value_types import TensorType, TupleType
from ...mindir.graph import Constant
from ...mindir.mindir_pb2 import GraphProto, ModelProto, NodeProto
from .attributes import constant_attribute, type_attribute, type_record
from .primitive_table import PrimitiveTable
from .values import ClosureType, MindirValue, ResultType, tuple_type, type_of_constant

Operand: TypeAlias = "MindirValue | Constant"
"""An operand of a node: a value of the graph, or a Python constant that becomes one."""


class MindirBuilder:
    """One MindIR model while it is built; nodes go into the graph that `graph` names.

    Names of values are `GRAPH:NAME`, as MindSpore has them. Constants are written into the entry
    graph, where nodes of all functions find them.
    """

    def __init__(self, name: str) -> None:
        self.model = ModelProto(
            ir_version="1.1",
            producer_name="MindSpore",
            model_version="2.10.0",
            little_endian=True,
            mind_ir_version=3,
        )
        self.model.graph.name = name
        self.graph: GraphProto = self.model.graph
        self._primitives = PrimitiveTable(self.model)
        self._constants: dict[tuple[object, ...], MindirValue] = {}
        self._constant_nodes: list[NodeProto] = []
        self._count = 0

    def input(self, name: str, kind: TensorType) -> MindirValue:
        """An input of the graph, by the name that users know."""
        key = f"{self.graph.name}:{name}"
        info = self.graph.input.add(name=key)
        info.tensor.append(type_record("", kind))
        return MindirValue(key, kind)

    def weight(self, name: str, kind: TensorType) -> MindirValue:
        """A parameter of the entry graph; its elements are written with the file."""
        key = f"{self.model.graph.name}:{name}"
        record = type_record(key, kind)
        record.ref_key = name
        record.compression_type = 0
        self.model.graph.parameter.append(record)
        return MindirValue(key, kind)

    def constant(self, value: Constant) -> MindirValue:
        """A constant; equal ones are one node."""
        identity = _identity(value)
        found = self._constants.get(identity)
        if found is None:
            key = f"ValueNode_{len(self._constants)}"
            node = NodeProto(name=key, output=[key], op_type="Constant")
            node.attribute.append(constant_attribute("value", value))
            self._constant_nodes.append(node)
            found = MindirValue(key, type_of_constant(value), value)
            self._constants[identity] = found
        return found

    def apply(
        self, primitive: str, *inputs: Operand, type: ResultType, **attributes: Constant
    ) -> MindirValue:
        """The result of a primitive, of the given type. Its kind follows from its name."""
        reference = self._primitives.reference(primitive, attributes)
        return self._node(reference, primitive, inputs, type)

    @contextmanager
    def function(self, word: str) -> Iterator[str]:
        """A new function, into which nodes go meanwhile; gives its name."""
        outer = self.graph
        name = f"{word}_{len(self.model.functions)}"
        self.graph = self.model.functions.add(name=name)
        try:
            yield name
        finally:
            self.graph = outer

    def bound(self, function: str, inputs: Sequence[MindirValue]) -> MindirValue:
        """A function with its arguments, which is not called yet."""
        name = MindirValue(function, ClosureType((function,)))
        return self.apply("Partial", name, *inputs, type=name.type, side_effect_propagate=1)

    def chosen(
        self, condition: MindirValue, yes: MindirValue, no: MindirValue, type: ResultType
    ) -> MindirValue:
        """The result of one of two bound functions."""
        names = [name for one in (yes, no) for name in _functions(one)]
        closure = self.apply("Switch", condition, yes, no, type=ClosureType(tuple(names)))
        return self.call(closure.key, type=type)

    def call(self, function: str, *inputs: Operand, type: ResultType) -> MindirValue:
        """The result of a function of the model, or of the closure that a node gives."""
        return self._node(f"REF::{function}", "call", inputs, type)

    def tuple(self, items: Sequence[MindirValue]) -> MindirValue:
        """Several values as one."""
        return self.apply("MakeTuple", *items, type=tuple_type(items))

    def item(self, value: MindirValue, index: int) -> MindirValue:
        """One of the values of a tuple."""
        assert isinstance(value.type, TupleType) and value.type.items is not None
        return self.apply("TupleGetItem", value, index, type=value.type.items[index])

    def after(self, value: MindirValue, done: MindirValue) -> MindirValue:
        """The same value, once another one was computed."""
        return self.apply("Depend", value, done, type=value.type, side_effect_propagate=1)

    def returned(self, outputs: Sequence[MindirValue]) -> None:
        """End the graph: its results, of which several are one tuple."""
        result = outputs[0] if len(outputs) == 1 else self.tuple(outputs)
        info = self.graph.output.add(name=result.key)
        if isinstance(result.type, TensorType):
            info.tensor.append(type_record("", result.type))
        else:
            info.denotation = "Tuple"
            info.attr_info.CopyFrom(type_attribute(result.type, ""))

    def finished(self, user_info: Mapping[str, str]) -> ModelProto:
        """The model, without the elements of its weights."""
        nodes = [*self._constant_nodes, *self.model.graph.node]
        del self.model.graph.node[:]
        self.model.graph.node.extend(nodes)
        self.model.user_info.update(user_info)
        return self.model

    def _node(
        self, reference: str, word: str, inputs: Sequence[Operand], kind: ResultType
    ) -> MindirValue:
        self._count += 1
        key = f"{self.graph.name}:{word}_{self._count}"
        operands = [one if isinstance(one, MindirValue) else self.constant(one) for one in inputs]
        node = self.graph.node.add(name=key, output=[key], op_type=reference)
        node.input.extend(one.key for one in operands)
        node.domain = f"Default/{word}-op{self._count}"
        node.attribute.append(type_attribute(kind))
        return MindirValue(key, kind)


def _functions(closure: MindirValue) -> tuple[str, ...]:
    assert isinstance(closure.type, ClosureType)
    return closure.type.functions


def _identity(value: Constant) -> tuple[object, ...]:
    """A key that two constants share only if they are the same: 1, 1.0 and True are not."""
    if isinstance(value, np.ndarray):
        return ("tensor", value.dtype.str, value.shape, value.tobytes())
    if isinstance(value, tuple):
        return ("tuple", *map(_identity, value))
    return (type(value).__name__, str(value))
