"""The walk over a MindIR model that turns it into one ONNX model, the pivot of everything behind it."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from onnx import ModelProto, helper

from ...comm.errors import ModelError, UnsupportedPrimitives
from ..mindir.graph import MONAD, Graph, Model, Named, Node, OtherType, ScalarType, TensorType, TupleType, ValueType
from . import (  # noqa: F401  (they fill the registry)
    activation,
    collective,
    compare,
    control,
    conv,
    create,
    division,
    gather,
    inplace,
    linear,
    math,
    norm,
    pool,
    recurrent,
    reduce,
    resize,
    scalar,
    shape,
    slicing,
    sort,
)
from .builder import DOMAIN, IR_VERSION, OPSET, Builder, Tensor, Value
from .inplace import IN_PLACE, SAME_BUFFER, Overwritten
from .registry import lowering_of

_SIDE_EFFECTS = {"Send", "Receive", "AllReduce", "AllGather", "ReduceScatter", "AlltoAll", "Broadcast", "Reduce",
                 "CollectiveGather", "CollectiveScatter", "NeighborExchange", "Assign"}
_ORDER_ONLY = {"UpdateState"}
_KNOWN = {"Partial", "Switch", *_ORDER_ONLY}  # the walk itself deals with these
_MAX_CALLS = 100
_MAX_NODES = 2_000_000  # functions that call functions twice, and so on, end here
_MAX_OUTPUTS = 10_000


@dataclass(frozen=True, slots=True)
class Closure:
    """A function and its first arguments, not called yet."""

    function: str
    bound: tuple[Value, ...] = ()


def lower(model: Model) -> ModelProto:
    """The ONNX model of a MindIR model, functions inlined, collectives as nodes of the domain `rankmesh`.

    Weights are external initializers that point into the model's own files, relative to its folder. Inputs and
    outputs keep MindSpore's order; nested results are flattened. Raises UnsupportedPrimitives with the
    whole list, or ModelError with the node.
    """
    refuse_unsupported(model)
    walk = _Walk(model)
    inputs = [walk.input(i.key, i.name, i.type) for i in model.entry.inputs if not isinstance(i.type, OtherType)]
    monads = {i.key: MONAD for i in model.entry.inputs if isinstance(i.type, OtherType)}
    result = walk.run(model.entry, {**dict(inputs), **monads})
    outputs = walk.outputs(result, model.entry.output_type)
    graph = walk.builder.graph([tensor for _, tensor in inputs], outputs)
    opsets = [helper.make_opsetid("", OPSET), helper.make_opsetid(DOMAIN, 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=IR_VERSION, producer_name="rankmesh")


def unsupported(model: Model) -> dict[str, list[str]]:
    """Primitives without a lowering, each with the labels of the nodes that use it."""
    missing: dict[str, list[str]] = {}
    for graph in (model.entry, *model.functions.values()):
        for node in live_nodes(graph):
            if node.primitive and not lowering_of(node.primitive) and node.primitive not in _KNOWN:
                missing.setdefault(node.primitive, []).append(node.label)
    return missing


def refuse_unsupported(model: Model) -> None:
    """Raise UnsupportedPrimitives if there is any, naming all of them and where they are."""
    missing = unsupported(model)
    if missing:
        lines = [f"  {name} ({len(where)}): {', '.join(where[:4])}{', ...' if len(where) > 4 else ''}"
                 for name, where in sorted(missing.items())]
        raise UnsupportedPrimitives(
            f"{model.path}: {len(missing)} primitives are not supported:\n" + "\n".join(lines) +
            "\nExport the network without them; `rankmesh inspect` lists what a model uses.")


def live_nodes(graph: Graph) -> list[Node]:
    """The nodes that the result depends on or that act on others, in file order."""
    by_key = {node.key: node for node in graph.nodes}
    stack = [graph.output, *(n.key for n in graph.nodes if n.primitive in _SIDE_EFFECTS)]
    live: set[str] = set()
    while stack:
        key = stack.pop()
        if key in by_key and key not in live:
            live.add(key)
            stack.extend(by_key[key].inputs)
            stack.append(by_key[key].target)
    return [node for node in graph.nodes if node.key in live]


def _uses(graph: Graph, nodes: Sequence[Node]) -> Counter[str]:
    """How often each value of a graph is used; a Depend is the value it hands on."""
    same: dict[str, str] = {}
    for node in nodes:
        if node.primitive == "Depend" and node.inputs:
            same[node.key] = same.get(node.inputs[0], node.inputs[0])
    ends = [key for node in nodes if node.primitive not in ("Depend", *_ORDER_ONLY) for key in node.inputs]
    return Counter(same.get(key, key) for key in (*ends, graph.output))


class _Walk:
    """One model while it is being lowered."""

    def __init__(self, model: Model) -> None:
        self.model = model
        self.builder = Builder()
        self.depth = self.nodes = 0
        self.locations: dict[str, str] = {}
        self.overwritten = Overwritten()
        self.overwrites = any(node.primitive in IN_PLACE for graph in (model.entry, *model.functions.values())
                              for node in graph.nodes)

    def input(self, key: str, name: str, kind: ValueType) -> tuple[str, Tensor]:
        """A graph input under the name that the user sees."""
        if isinstance(kind, ScalarType):
            kind = TensorType(kind.dtype, ())
        if not isinstance(kind, TensorType):
            raise ModelError(f"{self.model.path}: input '{name}' is no tensor, which is not supported.")
        return key, Tensor(self.builder.fresh(name), kind.dtype, kind.shape)

    def run(self, graph: Graph, scope: dict[str, Value]) -> Value:
        """Lower one graph with its arguments in `scope` (key to value); returns its result."""
        nodes = live_nodes(graph)
        counts = _uses(graph, nodes)
        for argument in graph.inputs:
            self._count(scope[argument.key], counts[argument.key])
        self.nodes += len(nodes)
        if self.nodes > _MAX_NODES:
            raise ModelError(f"{self.model.path}: has more than {_MAX_NODES} nodes once its functions are called.")
        for node in nodes:
            if node.primitive in _ORDER_ONLY:
                scope[node.key] = MONAD
                continue
            scope[node.key] = self._node(node, scope)
            if node.primitive != "Depend":
                self._count(scope[node.key], counts[node.key])
        return self._value(graph.output, scope)

    def _count(self, value: Value, uses: int) -> None:
        if isinstance(value, Tensor):
            self.builder.uses[value.name] = self.builder.uses.get(value.name, 0) + uses

    def _node(self, node: Node, scope: dict[str, Value]) -> Value:
        inputs = [self._value(key, scope) for key in node.inputs]
        self.builder.node = node
        try:
            if node.target:
                return self._call(self._callee(node, scope), inputs)
            if node.primitive == "Partial":
                return Closure(_function(inputs[0]), tuple(inputs[1:]))
            if node.primitive == "Switch":
                return self._switch(inputs)
            lowering = lowering_of(node.primitive)
            assert lowering is not None  # refuse_unsupported came first
            arguments = [value for value in inputs if value is not MONAD]
            args, keywords = lowering.bind(arguments, node.attributes)
            result = self.builder.typed(lowering.function(self.builder, *args, **keywords), node.type)
            return self._buffered(node, arguments, result) if self.overwrites else result
        except ValueError as error:
            raise ModelError(f"{self.model.path}: node {node.label} ({node.primitive or 'call'}): {error}.") from error
        except (TypeError, AttributeError, LookupError, ArithmeticError, RecursionError) as error:
            raise ModelError(f"{self.model.path}: node {node.label} ({node.primitive or 'call'}) has arguments that "
                             f"its lowering does not expect: {error!r}.") from error

    def _buffered(self, node: Node, arguments: Sequence[Value], result: Value) -> Value:
        """The result in the buffer of the first argument, or in one of its own, as MindSpore has it."""
        if node.primitive in IN_PLACE:
            self.overwritten.write(arguments[0], result)
        elif isinstance(result, Tensor) and node.primitive not in SAME_BUFFER:
            if self.builder.is_constant(result) or result.name in [a.name for a in arguments if isinstance(a, Tensor)]:
                return self.builder.op("Identity", result, type=TensorType(result.dtype, result.shape))
        return result

    def _value(self, key: str, scope: dict[str, Value]) -> Value:
        return self.overwritten.read(self._defined(key, scope))

    def _defined(self, key: str, scope: dict[str, Value]) -> Value:
        if key in scope:
            return scope[key]
        if key in self.model.constants:
            return self.model.constants[key]
        if key in self.model.weights:
            weight = self.model.weights[key]
            return self.builder.weight(key, weight, self._location(weight.path))
        if key in self.model.functions:
            return Closure(key)
        raise ModelError(f"{self.model.path}: a node refers to '{key}', which nothing in the file defines.")

    def _location(self, path: str) -> str:
        """A file's place relative to the model's folder, as external data are named."""
        if path not in self.locations:
            self.locations[path] = os.path.relpath(os.path.realpath(path), os.path.realpath(self.model.folder))
        return self.locations[path]

    def _callee(self, node: Node, scope: dict[str, Value]) -> Closure:
        target = self._value(node.target, scope)
        if not isinstance(target, Closure):
            raise ValueError(f"calls '{node.target}', which is no function")
        return target

    def _switch(self, inputs: Sequence[Value]) -> Value:
        condition, yes, no = inputs[:3]
        if isinstance(condition, (bool, np.ndarray)):
            return yes if bool(condition) else no
        raise ValueError("a branch on a value that is only known at run time is not supported yet")

    def _call(self, closure: Closure, arguments: Sequence[Value]) -> Value:
        graph = self.model.functions.get(closure.function)
        if graph is None:
            raise ValueError(f"calls '{closure.function}', which the file does not hold")
        values = [*closure.bound, *arguments]
        if len(values) != len(graph.inputs):
            raise ValueError(f"calls {graph.name} with {len(values)} arguments, expected {len(graph.inputs)}")
        if self.depth >= _MAX_CALLS:
            raise ValueError(f"functions call each other more than {_MAX_CALLS} deep: loops are not supported yet")
        self.depth += 1
        try:
            return self.run(graph, {i.key: value for i, value in zip(graph.inputs, values, strict=True)})
        finally:
            self.depth -= 1

    def outputs(self, result: Value, kind: ValueType) -> list[Tensor]:
        """The flattened results as outputs of the ONNX graph, each under its own name."""
        found = []
        for index, (value, item) in enumerate(_flatten(result, kind)):
            if index == _MAX_OUTPUTS:
                raise ModelError(f"{self.model.path}: has more than {_MAX_OUTPUTS} results.")
            found.append(self.builder.output(self._output(value, item), f"output_{index}"))
        return found

    def _output(self, value: Value, kind: ValueType) -> Tensor:
        if isinstance(value, (bool, int, float)) and isinstance(kind, (ScalarType, TensorType)):
            value = np.asarray(value, kind.dtype)
        tensor = self.builder.tensor(value)
        if isinstance(kind, ScalarType):
            return replace(self.builder.cast(tensor, kind.dtype), shape=())
        return tensor


def _function(value: Value) -> str:
    if not isinstance(value, Closure):
        raise ValueError("Partial of something that is no function")
    return value.function


def _flatten(value: Value, kind: ValueType) -> Iterator[tuple[Value, ValueType]]:
    if isinstance(value, tuple):
        items = kind.items if isinstance(kind, TupleType) and kind.items is not None else None
        for index, item in enumerate(value):
            yield from _flatten(item, items[index] if items and index < len(items) else OtherType("none"))
    elif value is not None and value is not MONAD and not isinstance(value, Named):
        yield value, kind
