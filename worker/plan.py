"""The plan of one rank: its graph cut at the collectives into segments, in the order of the file."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import onnx
from onnx import GraphProto, ModelProto, NodeProto, TensorProto, ValueInfoProto, helper

from ..comm.collectives.base import Call
from ..comm.errors import ModelError
from . import dtypes
from .collective_nodes import DOMAIN, call_of, position_recorded, result_types, without_meaning
from .mindir.graph import TensorType
from .pivot import Pivot


@dataclass(frozen=True, slots=True)
class Signature:
    """One input or output of the model: the user's name for it, the plan's, and its type."""

    name: str
    value: str
    type: TensorType
    has_result: bool = True


@dataclass(frozen=True, slots=True)
class Segment:
    """A stretch of the graph without collectives, as an ONNX model of its own."""

    model: ModelProto
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Exchange:
    """One collective, the values that it reads and makes, and the position it was written for (-1: unsaid)."""

    call: Call
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    position: int = -1


Step: TypeAlias = Segment | Exchange


@dataclass(frozen=True, slots=True)
class Plan:
    """What one rank does for a request, in order. `types` has every value that passes between steps.

    `constants` are the initializers that a collective or an output takes directly.
    """

    path: str
    folder: str
    inputs: tuple[Signature, ...]
    outputs: tuple[Signature, ...]
    steps: tuple[Step, ...]
    types: Mapping[str, TensorType]
    constants: Mapping[str, TensorProto]

    @property
    def exchanges(self) -> list[Exchange]:
        """The collectives, in the order in which this rank enters them."""
        return [step for step in self.steps if isinstance(step, Exchange)]


def make_plan(pivot: Pivot, rank: int, world_size: int) -> Plan:
    """Cut a model for one rank; the pivot's own model is used up. Raises ModelError with the node where that cannot be done."""
    return _Cutter(pivot, rank, world_size).plan()


class _Cutter:
    """One graph while it is being cut."""

    def __init__(self, pivot: Pivot, rank: int, world_size: int) -> None:
        self.pivot, self.rank, self.world_size = pivot, rank, world_size
        self.model = _inlined(pivot.model)
        self.graph = self.model.graph
        self.alias: dict[str, str] = {}
        self.initializers = {tensor.name: tensor for tensor in self.graph.initializer}
        self.types = _declared_types(self.graph)
        self.meaningless: set[str] = set()
        self.exchanges = 0

    def plan(self) -> Plan:
        nodes = [node for node in self._without_identities() if not self._refuse_hidden_collective(node)]
        outputs = [self._resolve(info.name) for info in self.graph.output]
        for info, value in zip(self.graph.output, outputs, strict=True):
            if info.name in self.types:
                self.types.setdefault(value, self.types[info.name])
        steps = [step for stretch in self._stretches(nodes, outputs) for step in stretch]
        used = {name for step in steps for name in step.inputs} | set(outputs)
        constants = {name: tensor for name, tensor in self.initializers.items() if name in used}
        sends = any(isinstance(s, Exchange) and s.call.sends_to for s in steps)
        return Plan(
            self.pivot.path, self.pivot.folder,
            tuple(Signature(i.name, i.name, self._type(i.name)) for i in self.graph.input
                  if i.name not in self.initializers),
            tuple(self._output(info, value, sends) for info, value in zip(self.graph.output, outputs, strict=True)),
            tuple(steps), self.types, constants)

    def _output(self, info: ValueInfoProto, value: str, sends: bool) -> Signature:
        """An output; a constant beside a Send stands for "the next stage has it" (MindSpore's pipelines)."""
        has_result = value not in self.meaningless and not (sends and value in self.initializers)
        return Signature(info.name, value, self._type(value), has_result)

    def _without_identities(self) -> Iterator[NodeProto]:
        for node in self.graph.node:
            if node.op_type == "Identity" and not node.domain:
                self.alias[node.output[0]] = self._resolve(node.input[0])
                continue
            if any(name in self.alias for name in node.input):
                renamed = [self._resolve(name) for name in node.input]
                del node.input[:]
                node.input.extend(renamed)
            yield node

    def _resolve(self, name: str) -> str:
        return self.alias.get(name, name)

    def _refuse_hidden_collective(self, node: NodeProto) -> bool:
        hidden = [inner for graph in _subgraphs(node) for inner in graph.node
                  if inner.domain == DOMAIN or self._refuse_hidden_collective(inner)]
        if hidden:
            raise ModelError(f"{self.pivot.path}: node {node.name} ({node.op_type}) contains the collective "
                             f"{hidden[0].name} ({hidden[0].op_type}): a collective inside a branch or loop is not "
                             f"supported yet. Move it out of the branch.")
        return False

    def _stretches(self, nodes: Sequence[NodeProto], outputs: Sequence[str]) -> Iterator[list[Step]]:
        """The steps in order; each segment gives out only what later nodes or the outputs take."""
        remaining = Counter(name for node in nodes for name in _uses(node))
        remaining.update(outputs)
        stretch: list[NodeProto] = []
        for node in nodes:
            spoiled = not self.meaningless.isdisjoint(_uses(node))
            if node.domain != DOMAIN:
                self.meaningless.update(node.output if spoiled else ())
                stretch.append(node)
                continue
            yield self._segment(stretch, remaining)
            yield [self._exchange(node, spoiled)]
            remaining.subtract(_uses(node))
            stretch = []
        yield self._segment(stretch, remaining)

    def _exchange(self, node: NodeProto, spoiled: bool) -> Exchange:
        call = call_of(node, self.exchanges, self.rank, self.world_size, self.pivot.path)
        self.exchanges += 1
        if without_meaning(call, self.rank, spoiled):
            self.meaningless.update(node.output)
        inputs = tuple(node.input)
        kinds = result_types(node, call, [self._type(name) for name in inputs])
        for name, kind in zip(node.output, kinds, strict=True):
            self.types.setdefault(name, kind)
        return Exchange(call, inputs, tuple(node.output), position_recorded(node))

    def _segment(self, nodes: Sequence[NodeProto], remaining: Counter[str]) -> list[Step]:
        for node in nodes:
            remaining.subtract(_uses(node))
        made = [name for node in nodes for name in node.output if name]
        outputs = tuple(name for name in made if remaining[name] > 0)
        if not outputs:
            return []
        kept = _needed(nodes, outputs)
        inner = {name for node in kept for name in node.output}
        taken = list(dict.fromkeys(name for node in kept for name in _uses(node) if name not in inner))
        inputs = tuple(name for name in taken if name not in self.initializers)
        initializers = [self.initializers[name] for name in taken if name in self.initializers]
        model = self._model(kept, inputs, outputs, initializers)
        return [Segment(model, inputs, outputs)]

    def _model(self, nodes: Sequence[NodeProto], inputs: Sequence[str], outputs: Sequence[str],
               initializers: Sequence[TensorProto]) -> ModelProto:
        graph = helper.make_graph(
            nodes, "segment", [_value_info(name, self._type(name)) for name in inputs], [], initializer=initializers)
        model = helper.make_model(
            graph, ir_version=self.model.ir_version, producer_name="rankmesh",
            opset_imports=[opset for opset in self.model.opset_import if opset.domain != DOMAIN])
        if any(name not in self.types for name in outputs):
            self._infer(model, outputs)
        model.graph.output.extend(_value_info(name, self._type(name)) for name in outputs)
        return model

    def _infer(self, model: ModelProto, outputs: Sequence[str]) -> None:
        """Let onnx work out the types of values that the file does not declare."""
        probe = ModelProto()
        probe.CopyFrom(model)
        probe.graph.output.extend(ValueInfoProto(name=name) for name in outputs)
        inferred = onnx.shape_inference.infer_shapes(probe)
        for info in inferred.graph.output:
            if info.type.tensor_type.elem_type:
                self.types.setdefault(info.name, _tensor_type(info))

    def _type(self, name: str) -> TensorType:
        if name not in self.types:
            raise ModelError(f"{self.pivot.path}: the type of the value '{name}' is not declared and cannot be "
                             f"inferred: add it to the graph's value_info.")
        return self.types[name]


def _inlined(model: ModelProto) -> ModelProto:
    if model.functions:
        return onnx.inliner.inline_local_functions(model)
    return model


def _declared_types(graph: GraphProto) -> dict[str, TensorType]:
    infos = [*graph.input, *graph.value_info, *graph.output]
    found = {info.name: _tensor_type(info) for info in infos if info.type.tensor_type.elem_type}
    for tensor in graph.initializer:
        found[tensor.name] = TensorType(dtypes.from_onnx(tensor.data_type), tuple(tensor.dims))
    return found


def _tensor_type(info: ValueInfoProto) -> TensorType:
    kind = info.type.tensor_type
    shape = tuple(d.dim_value if d.HasField("dim_value") else -1 for d in kind.shape.dim)
    return TensorType(dtypes.from_onnx(kind.elem_type), shape if kind.HasField("shape") else None)


def _value_info(name: str, kind: TensorType) -> ValueInfoProto:
    shape = None if kind.shape is None else [None if dim < 0 else dim for dim in kind.shape]
    return helper.make_tensor_value_info(name, dtypes.to_onnx(kind.dtype), shape)


def _subgraphs(node: NodeProto) -> Iterator[GraphProto]:
    for attribute in node.attribute:
        if attribute.HasField("g"):
            yield attribute.g
        yield from attribute.graphs


def _uses(node: NodeProto) -> Iterable[str]:
    """Every outer value that a node takes, those captured by its branches and bodies included."""
    names = {name for name in node.input if name}
    for graph in _subgraphs(node):
        own = {info.name for info in graph.input} | {tensor.name for tensor in graph.initializer}
        own.update(name for inner in graph.node for name in inner.output)
        names.update(name for inner in graph.node for name in _uses(inner) if name not in own)
        names.update(info.name for info in graph.output if info.name not in own)
    return names


def _needed(nodes: Sequence[NodeProto], outputs: Iterable[str]) -> list[NodeProto]:
    wanted, kept = set(outputs), []
    for node in reversed(nodes):
        if wanted.intersection(node.output):
            kept.append(node)
            wanted.update(_uses(node))
    return kept[::-1]
