"""The walk over a MindIR model that turns it into one ONNX model, the pivot of everything behind it."""

from __future__ import annotations

import logging

from onnx import ModelProto, helper

from ...comm.errors import ModelError, UnsupportedPrimitives
from ..collective_nodes import DOMAIN
from ..mindir.graph import MONAD, Graph, Model, Node
from .builder import IR_VERSION, OPSET, Builder, Tensor, Value
from .calls import Calls, partial
from .ends import model_input, model_outputs
from .exits import Exits
from .live import ORDER_ONLY, live_nodes, raising, tail_call, telling, value_uses
from .memory import Memory
from .places import Place
from .registry import is_supported, lowering_of
from .trees import Closure, leaves
from .variables import FoundVariable, Variable

_LOG = logging.getLogger("rankmesh")
_CHOOSING = frozenset({"Partial", "Switch", "switch_layer"})
HANDLED = _CHOOSING | ORDER_ONLY  # by the walk itself
_REFERRING = frozenset({"Partial", "MakeTuple", "make_list", "TupleGetItem", "list_getitem", "Depend"})
_MAX_NODES = 1 << 17
"""Nodes once functions are called: five times those of the largest networks. Functions that call functions twice, and
so on, end here."""
_EXPECTED = (ValueError, TypeError, AttributeError, LookupError, ArithmeticError, RecursionError)


def lower(model: Model) -> ModelProto:
    """The ONNX model of a MindIR model, functions inlined, collectives as nodes of the domain `rankmesh`.

    Weights are external initializers that point into the model's own files, relative to its folder. Inputs and
    outputs keep MindSpore's order; nested results are flattened. Raises UnsupportedPrimitives with the
    whole list, or ModelError with the node.
    """
    refuse_unsupported(model)
    if told := telling(model):
        _LOG.warning("%s: what only shows, writes or checks values is left out: %s.", model.path,
                     ", ".join(f"{name} ({count})" for name, count in sorted(told.items())))
    variables: tuple[str, ...] = ()
    while True:  # parameters that are assigned to are found on the way; then lowering starts again, knowing them
        try:
            return _Walk(model, variables).model_proto()
        except FoundVariable as found:
            variables = (*variables, found.key)


def unsupported(model: Model) -> dict[str, list[str]]:
    """Primitives without a lowering, each with the labels of the nodes that use it."""
    missing: dict[str, list[str]] = {}
    left_out = raising(model)
    for graph in (model.entry, *(graph for name, graph in model.functions.items() if name not in left_out)):
        for node in live_nodes(graph):
            if node.primitive and node.primitive not in HANDLED and not is_supported(node.primitive):
                missing.setdefault(node.primitive, []).append(node.label)
    return missing


def refuse_unsupported(model: Model) -> None:
    """Raise UnsupportedPrimitives if there is any, naming all of them and where they are."""
    missing = unsupported(model)
    if missing:
        lines = [f"  {name} ({len(where)}): {', '.join(where[:4])}{', ...' if len(where) > 4 else ''}{_instead(name)}"
                 for name, where in sorted(missing.items())]
        raise UnsupportedPrimitives(
            f"{model.path}: {len(missing)} primitives are not supported:\n" + "\n".join(lines) +
            "\nExport the network without them; `rankmesh inspect` lists what a model uses.")


def _instead(primitive: str) -> str:
    from .replacements import replacement_of  # a long table, for errors only

    found = replacement_of(primitive)
    return f"; instead: {found}" if found else ""


class _Walk:
    """One model while it is being lowered; `variables` are the keys of the parameters that it assigns to."""

    def __init__(self, model: Model, variables: tuple[str, ...]) -> None:
        self.source = model
        self.builder = Builder()
        self.nodes = 0
        self.locations: dict[str, str] = {}
        self.memory = Memory(model, variables)
        self.calls = Calls(self.builder, model, self.memory, self.trace)

    def model_proto(self) -> ModelProto:
        """The whole model."""
        entry = self.source.entry
        given = [(i.key, model_input(self.builder, i.name, i.type, self.source.path)) for i in entry.inputs]
        for key in self.memory.variables.keys:
            self.memory.variables.start(key, self._weight(key))
        try:
            result, = self.calls.frame(lambda place: self.trace(entry, dict(given), place), entry.output_type)
        except (ValueError, TypeError, LookupError, RecursionError) as error:
            label = self.builder.node.label if self.builder.node else "(none)"
            raise ModelError(f"{self.source.path}: behind node {label}: {error}.") from error
        outputs = model_outputs(self.builder, self.memory.read(result), entry.output_type, self.source.path)
        for initial, now in self.memory.variables.changed:
            self.builder.op("Assign", now, outputs=0, domain=DOMAIN, state=initial.name)
        inputs = [leaf for _, value in given for leaf in leaves(value) if isinstance(leaf, Tensor)]
        graph = self.builder.graph(inputs, outputs)
        opsets = [helper.make_opsetid("", OPSET), helper.make_opsetid(DOMAIN, 1)]
        return helper.make_model(graph, opset_imports=opsets, ir_version=IR_VERSION, producer_name="rankmesh")

    def trace(self, graph: Graph, scope: dict[str, Value], place: Place) -> Exits:
        """Lower one graph with its arguments in `scope` (key to value); returns where it leads."""
        live = live_nodes(graph)
        counts = value_uses(graph, live)
        for argument in graph.inputs:
            self._count(scope[argument.key], counts[argument.key])
        self.nodes += len(live)
        if self.nodes > _MAX_NODES:
            raise ModelError(f"{self.source.path}: has more than {_MAX_NODES} nodes once its functions are called.")
        last, nodes = tail_call(graph, live)
        for node in nodes:
            if node.primitive in ORDER_ONLY:
                scope[node.key] = MONAD
                continue
            scope[node.key] = self._node(node, scope)
            if node.primitive != "Depend":
                self._count(scope[node.key], counts[node.key])
        if last is None:
            return self.calls.returned(self._value(graph.output, scope))
        try:
            self.builder.node = last
            arguments = [self._value(key, scope) for key in last.inputs]
            return self.calls.tail(self._value(last.target, scope), arguments, place)
        except _EXPECTED as error:
            raise self._named(last, error) from error

    def _count(self, value: Value, uses: int) -> None:
        if isinstance(value, Tensor):
            self.builder.uses[value.name] = self.builder.uses.get(value.name, 0) + uses

    def _node(self, node: Node, scope: dict[str, Value]) -> Value:
        self.builder.node = node
        try:
            inputs = [self._value(key, scope) for key in node.inputs]
            if node.target:
                result = self.calls.value(self._value(node.target, scope), inputs, node.type)
                return self.builder.typed(result, node.type)
            if node.primitive in _CHOOSING:
                return self._choice(node.primitive, inputs)
            lowering = lowering_of(node.primitive)
            assert lowering is not None  # refuse_unsupported came first
            given = [value for value in inputs if value is not MONAD]
            reads = self.memory.writes and node.primitive not in _REFERRING
            arguments = [self.memory.read(value) for value in given] if reads else given
            args, keywords = lowering.bind(arguments, node.attributes)
            result = self.builder.typed(lowering.function(self.builder, *args, **keywords), node.type)
            self.builder.bulk.add_value(result)
            return self.memory.written(self.builder, node.primitive, given, result) if self.memory.writes else result
        except _EXPECTED as error:
            raise self._named(node, error) from error

    def _choice(self, primitive: str, inputs: list[Value]) -> Value:
        if primitive == "Partial":
            return partial(inputs)
        if primitive == "Switch":
            return self.calls.switch(inputs)
        return self.calls.switch_layer(*self.memory.read(tuple(inputs)))

    def _named(self, node: Node, error: Exception) -> ModelError:
        """An error of a lowering with the node in which it happened."""
        where = f"{self.source.path}: node {node.label} ({node.primitive or 'call'})"
        if isinstance(error, ValueError):
            return ModelError(f"{where}: {error}.")
        return ModelError(f"{where} has arguments that its lowering does not expect: {error!r}.")

    def _value(self, key: str, scope: dict[str, Value]) -> Value:
        value = self._defined(key, scope)
        return self.memory.overwritten.read(value) if self.memory.writes else value

    def _defined(self, key: str, scope: dict[str, Value]) -> Value:
        if key in scope:
            return scope[key]
        if key in self.source.constants:
            return self.source.constants[key]
        if key in self.source.weights:
            return self._parameter(key)
        if key in self.source.functions:
            return Closure(key)
        raise ModelError(f"{self.source.path}: a node refers to '{key}', which nothing in the file defines.")

    def _parameter(self, key: str) -> Value:
        if key in self.memory.variables:
            return Variable(key)
        tensor = self._weight(key)
        if self.memory.writes:
            self.memory.plain[tensor.name] = key
        return tensor

    def _weight(self, key: str) -> Tensor:
        weight = self.source.weights[key]
        return self.builder.weight(key, weight, self._location(weight.path))

    def _location(self, path: str) -> str:
        """A file's place relative to the model's folder, as external data are named."""
        if path not in self.locations:
            self.locations[path] = self.source.location(path)
        return self.locations[path]
