"""Lowering of a MindIR model: every node becomes ONNX nodes, all functions one ONNX model.

The walk goes through the live nodes of the entry graph in order. `builder/registry.py` gives the
lowering of each primitive, `control_flow/` lowers calls, branches, loops and assignments.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from onnx import ModelProto, helper

from ...comm.errors import ModelError
from ...comm.loggers import LOG
from ..element_types.value_types import ScalarType, TensorType, TupleType, ValueType
from ..mindir.graph import MONAD, Graph, MindirModel, MindirNode
from ..onnx_graph.collective_nodes import DOMAIN
from .builder import Builder, OnnxTensor, Value, lowering_of
from .control_flow.analysis import ORDER_ONLY, diagnostics, live_nodes, tail_call, value_uses
from .control_flow.calls import CallLowering, partial
from .control_flow.exits import ControlFlowPosition, Exits
from .control_flow.memory import AssignedParameter, AssignedParameterFound, ModelMemory
from .control_flow.trees import Closure, leaves
from .ends import model_input, model_outputs, output_names
from .unsupported import CHOOSING, refuse_unsupported

# The newest opset and IR version that every onnxruntime from 1.23 on runs and fuses fully.
_OPSET, _IR_VERSION = 21, 10
# Primitives that take the parameter itself, not its value.
_REFERRING = frozenset(
    {"Partial", "MakeTuple", "make_list", "TupleGetItem", "list_getitem", "Depend"}
)
MAX_NODES = 1 << 17
"""Nodes once functions are called: five times those of the largest networks. Functions that call
functions twice, and so on, end here."""
_EXPECTED = (ValueError, TypeError, AttributeError, LookupError, ArithmeticError, RecursionError)


def lower_mindir(model: MindirModel) -> ModelProto:
    """The ONNX model of a MindIR model, with collectives as nodes of the domain `rankmesh`.

    Weights are external initializers that point into the model's own files, relative to its folder.
    Inputs and outputs keep MindSpore's order; nested results are flattened. Raises
    UnsupportedPrimitives with the whole list, or ModelError with the node.
    """
    refuse_unsupported(model)
    if found := diagnostics(model):
        words = ", ".join(f"{name} ({count})" for name, count in sorted(found.items()))
        LOG.warning(
            "%s: what only shows, writes or checks values is left out: %s.", model.path, words
        )
    variables: tuple[str, ...] = ()
    while True:  # assigned parameters are found on the way; lowering starts again, knowing them
        try:
            return _ModelLowering(model, variables).model_proto()
        except AssignedParameterFound as found_one:
            variables = (*variables, found_one.key)


class _ModelLowering:
    """One model while it is lowered. `variables` are the keys of the parameters that it assigns."""

    def __init__(self, model: MindirModel, variables: tuple[str, ...]) -> None:
        self._model = model
        self._builder = Builder()
        self._node_count = 0
        self._locations: dict[str, str] = {}
        self._memory = ModelMemory(model, variables)
        self._calls = CallLowering(self._builder, model, self._memory, self._trace)

    def model_proto(self) -> ModelProto:
        """The whole model."""
        b, entry, path = self._builder, self._model.entry, self._model.path
        given = [(i.key, model_input(b, i.name, i.type, path)) for i in entry.inputs]
        inputs = [leaf for _, v in given for leaf in leaves(v) if isinstance(leaf, OnnxTensor)]
        for key in self._memory.variables.keys:
            self._memory.variables.start(key, self._weight(key))
        try:
            result = self._calls.frame(
                lambda position: self._trace(entry, dict(given), position), entry.output_type
            )
        except (ValueError, TypeError, LookupError, RecursionError) as error:
            raise ModelError(f"{path}: behind node {b.label or '(none)'}: {error}.") from error
        names = output_names(self._model.user_info)
        outputs = model_outputs(b, self._memory.read(result), entry.output_type, path, names)
        for initial, now in self._memory.variables.changed:
            b.ops("Assign", now, outputs=0, domain=DOMAIN, state=initial.name)
        return helper.make_model(
            b.graph(inputs, outputs),
            opset_imports=[helper.make_opsetid("", _OPSET), helper.make_opsetid(DOMAIN, 1)],
            ir_version=_IR_VERSION,
            producer_name="rankmesh",
        )

    def _trace(self, graph: Graph, scope: dict[str, Value], position: ControlFlowPosition) -> Exits:
        """The exits of one graph, with its arguments in `scope` (key to value)."""
        live = live_nodes(graph)
        self._node_count += len(live)
        if self._node_count > MAX_NODES:
            raise ModelError(
                f"{self._model.path}: has more than {MAX_NODES} nodes once its functions are "
                f"called."
            )
        last, nodes = tail_call(graph, live)
        self._lower_nodes(graph, live, nodes, scope)
        if last is None:
            return self._calls.returned(self._value(graph.output, scope))
        try:
            self._builder.begin(last)
            arguments = [self._value(key, scope) for key in last.inputs]
            return self._calls.tail(self._value(last.target, scope), arguments, position)
        except _EXPECTED as error:
            raise self._named(last, error) from error

    def _lower_nodes(
        self,
        graph: Graph,
        live: Sequence[MindirNode],
        nodes: Sequence[MindirNode],
        scope: dict[str, Value],
    ) -> None:
        counts = value_uses(graph, live)
        for argument in graph.inputs:
            self._builder.add_uses(scope[argument.key], counts[argument.key])
        for node in nodes:
            if node.primitive in ORDER_ONLY:
                scope[node.key] = MONAD
                continue
            scope[node.key] = self._lower_node(node, scope)
            if node.primitive != "Depend":
                self._builder.add_uses(scope[node.key], counts[node.key])

    def _lower_node(self, node: MindirNode, scope: dict[str, Value]) -> Value:
        self._builder.begin(node)
        try:
            inputs = [self._value(key, scope) for key in node.inputs]
            if node.target:
                result = self._calls.value(self._value(node.target, scope), inputs, node.type)
                return _typed(self._builder, result, node.type)
            if node.primitive in CHOOSING:
                return self._choice(node.primitive, inputs)
            return self._lower_primitive(node, inputs)
        except _EXPECTED as error:
            raise self._named(node, error) from error

    def _lower_primitive(self, node: MindirNode, inputs: Sequence[Value]) -> Value:
        b, memory = self._builder, self._memory
        given = [value for value in inputs if value is not MONAD]
        reads = memory.writes and node.primitive not in _REFERRING
        arguments = [memory.read(value) for value in given] if reads else given
        result = lowering_of(node.primitive).lower(b, arguments, node.attributes)
        result = _typed(b, result, node.type)
        b.budget.add_value(result)
        return memory.written(b, node.primitive, given, result) if memory.writes else result

    def _choice(self, primitive: str, inputs: Sequence[Value]) -> Value:
        if primitive == "Partial":
            return partial(inputs)
        if primitive == "Switch":
            return self._calls.switch(inputs)
        return self._calls.switch_layer(*self._memory.read(tuple(inputs)))

    def _named(self, node: MindirNode, error: Exception) -> ModelError:
        """An error of a lowering with the node in which it happened."""
        where = f"{self._model.path}: node {node.label} ({node.primitive or 'call'})"
        if isinstance(error, ValueError):
            return ModelError(f"{where}: {error}.")
        return ModelError(f"{where} has arguments that its lowering does not expect: {error!r}.")

    def _value(self, key: str, scope: dict[str, Value]) -> Value:
        value = self._defined(key, scope)
        return self._memory.overwritten.read(value) if self._memory.writes else value

    def _defined(self, key: str, scope: dict[str, Value]) -> Value:
        if key in scope:
            return scope[key]
        if key in self._model.constants:
            return self._model.constants[key]
        if key in self._model.weights:
            return self._parameter(key)
        if key in self._model.functions:
            return Closure(key)
        raise ModelError(
            f"{self._model.path}: a node refers to '{key}', which nothing in the file defines."
        )

    def _parameter(self, key: str) -> Value:
        if key in self._memory.variables:
            return AssignedParameter(key)
        tensor = self._weight(key)
        if self._memory.writes:
            self._memory.plain[tensor.name] = key
        return tensor

    def _weight(self, key: str) -> OnnxTensor:
        weight = self._model.weights[key]
        if weight.path not in self._locations:
            self._locations[weight.path] = self._model.location(weight.path)
        return self._builder.weight(key, weight, self._locations[weight.path])


def _typed(b: Builder, value: Value, kind: ValueType) -> Value:
    """`value` with the type that MindSpore recorded, cast where ONNX yields another dtype."""
    if isinstance(value, OnnxTensor):
        return _typed_tensor(b, value, kind)
    if isinstance(value, (bool, int, float)) and isinstance(kind, TensorType):
        return np.asarray(value, kind.dtype)
    items = kind.items if isinstance(kind, TupleType) else None
    if isinstance(value, tuple) and items is not None and len(items) == len(value):
        return tuple(_typed(b, v, k) for v, k in zip(value, items, strict=True))
    return value


def _typed_tensor(b: Builder, value: OnnxTensor, kind: ValueType) -> OnnxTensor:
    if isinstance(kind, TensorType):
        # MindSpore gives up a rank sooner than lowerings do.
        known = value.shape if kind.shape is None else kind.shape
        value = replace(b.cast(value, kind.dtype), shape=known)
        b.declare(value)
    elif isinstance(kind, ScalarType):
        value = replace(value, shape=(), scalar=True)
    return value
