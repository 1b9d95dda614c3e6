"""Cuts a pivot at its collectives into the plan of one rank."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

import onnx
from onnx import ModelProto, NodeProto, TensorProto, ValueInfoProto, helper

from ..comm.errors import ModelError
from .collective_nodes import DOMAIN, call_of
from .collective_types import result_types, without_meaning
from .mindir.graph import TensorType
from .onnx_values import captured, declared_types, inlined, needed, subgraphs, tensor_type, uses, value_info
from .pivot import Pivot
from .plan import Exchange, Plan, Segment, Signature, Step


def make_plan(pivot: Pivot, rank: int, world_size: int) -> Plan:
    """Cut a model for one rank; the pivot's own model is used up.

    Raises ModelError with the node where that cannot be done.
    """
    try:
        return _Cutter(pivot, rank, world_size).plan()
    except UnicodeDecodeError as error:  # protobuf decodes names only when they are looked at
        raise ModelError(f"{pivot.path}: corrupt: a name is no text ({error}). Export it again.") from error


class _Cutter:
    """One graph while it is being cut."""

    def __init__(self, pivot: Pivot, rank: int, world_size: int) -> None:
        self.pivot, self.rank, self.world_size = pivot, rank, world_size
        self.model = inlined(pivot.model)
        self.graph = self.model.graph
        self.alias: dict[str, str] = {}
        self.initializers = {tensor.name: tensor for tensor in self.graph.initializer}
        self.types = declared_types(self.graph)
        self.meaningless: set[str] = set()
        self.captured = {name for node in self.graph.node for name in captured(node)}
        self.exchanges = 0

    def plan(self) -> Plan:
        nodes = [node for node in self._simplified() if not self._refuse_hidden_collective(node)]
        outputs = [self._resolve(info.name) for info in self.graph.output]
        nodes = needed(nodes, outputs, DOMAIN)
        for info, value in zip(self.graph.output, outputs, strict=True):
            if info.name in self.types:
                self.types.setdefault(value, self.types[info.name])
        steps = [step for stretch in self._stretches(nodes, outputs) for step in stretch]
        used = {name for step in steps for name in step.inputs} | set(outputs)
        constants = {name: tensor for name, tensor in self.initializers.items() if name in used}
        self._require_all_made(steps, outputs)
        sends = any(isinstance(s, Exchange) and s.call.sends_to for s in steps)
        return Plan(
            self.pivot.path, self.pivot.folder,
            tuple(Signature(i.name, i.name, self._type(i.name)) for i in self.graph.input
                  if i.name not in self.initializers),
            tuple(self._output(info, value, sends) for info, value in zip(self.graph.output, outputs, strict=True)),
            tuple(steps), self.types, constants)

    def _require_all_made(self, steps: Sequence[Step], outputs: Sequence[str]) -> None:
        known = {info.name for info in self.graph.input} | self.initializers.keys()
        for taken, made in (*((step.inputs, step.outputs) for step in steps), (outputs, ())):
            unknown = [name for name in taken if name not in known]
            if unknown:
                raise ModelError(f"{self.pivot.path}: the value '{unknown[0]}' is used, but nothing makes it before: "
                                 f"the file is corrupt or not sorted, or holds sparse weights.")
            known.update(made)

    def _output(self, info: ValueInfoProto, value: str, sends: bool) -> Signature:
        """An output; a constant beside a Send stands for "the next stage has it" (MindSpore's pipelines)."""
        has_result = value not in self.meaningless and not (sends and value in self.initializers)
        return Signature(info.name, value, self._type(value), has_result)

    def _simplified(self) -> Iterator[NodeProto]:
        """The nodes without Identities, but for those that branches and bodies see, and without Constants."""
        for node in self.graph.node:
            op_type = node.op_type if not node.domain and len(node.output) == 1 else ""
            if op_type == "Identity" and len(node.input) == 1 and node.output[0] not in self.captured:
                self.alias[node.output[0]] = self._resolve(node.input[0])
            elif op_type == "Constant" and [attribute.name for attribute in node.attribute] == ["value"]:
                self._add_initializer(node.output[0], node.attribute[0].t)
            else:
                if any(name in self.alias for name in node.input):
                    renamed = [self._resolve(name) for name in node.input]
                    del node.input[:]
                    node.input.extend(renamed)
                yield node

    def _add_initializer(self, name: str, tensor: TensorProto) -> None:
        tensor.name = name
        self.initializers[name] = tensor
        self.types.update(declared_types(onnx.GraphProto(initializer=[tensor])))

    def _resolve(self, name: str) -> str:
        return self.alias.get(name, name)

    def _refuse_hidden_collective(self, node: NodeProto) -> bool:
        hidden = [inner for graph in subgraphs(node) for inner in graph.node
                  if inner.domain == DOMAIN or self._refuse_hidden_collective(inner)]
        if hidden:
            raise ModelError(f"{self.pivot.path}: node {node.name} ({node.op_type}) contains the collective "
                             f"{hidden[0].name} ({hidden[0].op_type}): a collective inside a branch or loop is not "
                             f"supported yet. Move it out of the branch.")
        return False

    def _stretches(self, nodes: Sequence[NodeProto], outputs: Sequence[str]) -> Iterator[list[Step]]:
        """The steps in order; each segment gives out only what later nodes or the outputs take."""
        remaining = Counter(name for node in nodes for name in uses(node))
        remaining.update(outputs)
        stretch: list[NodeProto] = []
        for node in nodes:
            spoiled = not self.meaningless.isdisjoint(uses(node))
            if node.domain != DOMAIN:
                self.meaningless.update(node.output if spoiled else ())
                stretch.append(node)
                continue
            yield self._segment(stretch, remaining)
            yield [self._exchange(node, spoiled)]
            stretch = []
        yield self._segment(stretch, remaining)

    def _exchange(self, node: NodeProto, spoiled: bool) -> Exchange:
        call = call_of(node, self.exchanges, self.rank, self.world_size, self.pivot.path)
        self.exchanges += 1
        if without_meaning(call, self.rank, spoiled):
            self.meaningless.update(node.output)
        inputs = tuple(node.input)
        self.types.update(zip(node.output, result_types(
            node, call, self.rank, [self._type(name) for name in inputs], [self.types.get(n) for n in node.output],
            self.pivot.path), strict=True))
        return Exchange(call, inputs, tuple(node.output))

    def _segment(self, nodes: Sequence[NodeProto], remaining: Counter[str]) -> list[Step]:
        for node in nodes:
            remaining.subtract(uses(node))
        if not nodes:
            return []
        made = list(dict.fromkeys(name for node in nodes for name in node.output if name))
        outputs = tuple(name for name in made if remaining[name] > 0)
        taken = [name for name in dict.fromkeys(name for node in nodes for name in uses(node)) if name not in set(made)]
        inputs = tuple(name for name in taken if name not in self.initializers)
        initializers = [self.initializers[name] for name in taken if name in self.initializers]
        model = self._model(nodes, inputs, outputs, initializers)
        return [Segment(model, inputs, outputs)]

    def _model(self, nodes: Sequence[NodeProto], inputs: Sequence[str], outputs: Sequence[str],
               initializers: Sequence[TensorProto]) -> ModelProto:
        graph = helper.make_graph(
            nodes, "segment", [value_info(name, self._type(name)) for name in inputs], [], initializer=initializers)
        model = helper.make_model(
            graph, ir_version=self.model.ir_version, producer_name="rankmesh",
            opset_imports=[opset for opset in self.model.opset_import if opset.domain != DOMAIN])
        if any(name not in self.types for name in outputs):
            self._infer(model, outputs)
        model.graph.output.extend(value_info(name, self._type(name)) for name in outputs)
        return model

    def _infer(self, model: ModelProto, outputs: Sequence[str]) -> None:
        """Let onnx work out the types of values that the file does not declare."""
        probe = ModelProto()
        probe.CopyFrom(model)
        probe.graph.output.extend(ValueInfoProto(name=name) for name in outputs)
        try:
            inferred = onnx.shape_inference.infer_shapes(probe)
        except (onnx.shape_inference.InferenceError, ValueError) as error:
            raise ModelError(f"{self.pivot.path}: the types of {list(outputs)} are not declared and cannot be inferred "
                             f"({error}): add them to the graph's value_info.") from error
        for info in inferred.graph.output:
            if kind := tensor_type(info):
                self.types.setdefault(info.name, kind)

    def _type(self, name: str) -> TensorType:
        if name not in self.types:
            raise ModelError(f"{self.pivot.path}: the type of the value '{name}' is not declared and cannot be "
                             f"inferred (add it to the graph's value_info), or is no tensor of numbers or bools.")
        return self.types[name]
