"""Graph compiler: an ONNX graph as a call list; what constants alone decide is computed once."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import torch
from onnx import GraphProto, NodeProto, TensorProto, helper, numpy_helper

from ....compiler.onnx_graph.onnx_values import captured
from .call_list import NOTHING, CallList, TorchCall, TorchFailed, store
from .operator_node import TorchNode
from .patterns.attention_pattern import with_attention
from .patterns.norm_pattern import with_norms
from .registry import known_operators, operator_name
from .tensors import torch_dtype

_SMALL = 8
"""Elements of a constant that a pattern looks at."""


class CompiledBody:
    """See Body: a branch or body as a call list."""

    def __init__(self, calls: CallList, graph: GraphProto) -> None:
        self.run = calls.run
        self.results = len(graph.output)
        self._outputs = graph.output

    @property
    def result_types(self) -> list[tuple[torch.dtype, tuple[int, ...]]]:
        """See Body.result_types."""
        kinds = [info.type.tensor_type for info in self._outputs]
        return [
            (torch_dtype(kind.elem_type), tuple(dim.dim_value for dim in kind.shape.dim))
            for kind in kinds
        ]


class GraphCompiler:
    """Compiles one model; collects in `unsupported` the nodes that torch cannot run, in words."""

    def __init__(
        self,
        opsets: Mapping[str, int],
        device: torch.device,
        initializer: Callable[[TensorProto], torch.Tensor],
    ) -> None:
        """`initializer` gives the tensor of an initializer of the graph, a branch or a body."""
        self.unsupported: list[str] = []
        self._opsets = opsets
        self._device = device
        self._initializer = initializer
        self._memory: set[int] = set()
        self._depth = 0

    def call_list(
        self, graph: GraphProto, arguments: Sequence[str], constants: Mapping[str, torch.Tensor]
    ) -> CallList:
        """The calls of a graph with the inputs `arguments`; `constants` are values from outside."""
        slots = _Slots(arguments, constants)
        calls: list[TorchCall] = []
        with torch.inference_mode():
            for tensor in graph.initializer:
                if tensor.name not in slots.numbers:
                    slots.values[slots.number(tensor.name)] = self._initializer(tensor)
            for node in self._nodes(graph, slots):
                self._add(node, slots, calls)
        results = [slots.number(info.name) for info in graph.output]
        used = {slot for call in calls for slot in call.inputs} | set(results)
        template = [
            slots.values.get(slot) if slot in used else None for slot in range(len(slots.numbers))
        ]
        taken = [slots.number(name) for name in arguments]
        made = CallList(calls, template, taken, results, self._memory)
        self._memory |= made.memory
        return made

    def _nodes(self, graph: GraphProto, slots: _Slots) -> Sequence[NodeProto]:
        """The nodes of a graph; before opset 13 the softmax of attention is another one."""
        nodes = with_attention(graph) if self._opsets.get("", 1) >= 13 else graph.node
        return with_norms(graph, nodes, partial(_numbers, _constants(graph), slots))

    def _add(self, proto: NodeProto, slots: _Slots, calls: list[TorchCall]) -> None:
        name = operator_name(proto.domain, proto.op_type)
        operator = known_operators().get(name)
        if operator is not None and _draws(proto):
            operator = replace(operator, random=True)
        label = f"{name} {proto.name or proto.output[0]}"
        if operator is None:
            self.unsupported.append(label)
            return
        outer = [one for one in dict.fromkeys(captured(proto)) if slots.is_open(one)]
        try:
            function = operator.prepare(self._node(proto, slots, outer))
        except (ValueError, KeyError) as error:
            self.unsupported.append(f"{label}: {error}")
            return
        taken = tuple(slots.number(one) for one in (*proto.input, *outer))
        if self._depth:
            taken = slots.with_integers(taken, operator.sizes)
        outputs = tuple(slots.number(one) if one else NOTHING for one in proto.output)
        call = TorchCall(label, operator, function, taken, outputs)
        if operator.random or not all(slot in slots.values for slot in taken):
            calls.append(call)
            return
        try:
            store(slots.values, call, call.made(slots.values))
        except TorchFailed:
            if not self._depth:
                raise
            calls.append(call)  # of a branch or body that may never run

    def _node(self, proto: NodeProto, slots: _Slots, outer: Sequence[str]) -> TorchNode:
        def body(graph: GraphProto) -> CompiledBody:
            own = [info.name for info in graph.input]
            inner = {one: slots.known(one) for one in captured(proto) if slots.is_known(one)}
            free = {one: value for one, value in inner.items() if one not in own}
            arguments = [*own, *(one if one not in own else f"{one} outside" for one in outer)]
            self._depth += 1
            compiled = CompiledBody(self.call_list(graph, arguments, free), graph)
            self._depth -= 1
            return compiled

        constants = {
            at: slots.known(one) for at, one in enumerate(proto.input) if slots.is_known(one)
        }
        opset = self._opsets.get(proto.domain, self._opsets.get("", 1))
        return TorchNode(proto, opset, constants, self._device, body)


def _constants(graph: GraphProto) -> dict[str, Any]:
    """The values of the nodes Constant of a graph."""
    return {
        node.output[0]: helper.get_attribute_value(node.attribute[0])
        for node in graph.node
        if node.op_type == "Constant" and not node.domain
    }


def _numbers(constants: Mapping[str, Any], slots: _Slots, name: str) -> Sequence[float] | None:
    """See Numbers of norm_pattern.py."""
    value = constants.get(name)
    if slots.is_known(name):
        value = slots.known(name)
    elif isinstance(value, TensorProto):
        value = torch.from_numpy(numpy_helper.to_array(value).copy())
    if isinstance(value, torch.Tensor):
        small = value.numel() <= _SMALL
        return [float(one) for one in value.flatten().tolist()] if small else None
    return value if isinstance(value, list) else None if value is None else [value]


def _draws(proto: NodeProto) -> bool:
    """Whether the branches or bodies of a node draw random numbers."""
    known = known_operators()
    inner = [node for one in proto.attribute for node in one.g.node]
    names = (operator_name(node.domain, node.op_type) for node in inner)
    return any(name in known and known[name].random for name in names) or any(map(_draws, inner))


class _Slots:
    """The numbers of values, and the values that are known before the run."""

    def __init__(self, arguments: Sequence[str], constants: Mapping[str, Any]) -> None:
        self.numbers: dict[str, int] = {"": NOTHING}
        self.values: dict[int, Any] = {NOTHING: None}
        for name in arguments:
            self.number(name)
        for name, value in constants.items():
            self.values[self.number(name)] = value

    def number(self, name: str) -> int:
        """The slot of a value."""
        return self.numbers.setdefault(name, len(self.numbers))

    def with_integers(self, taken: Sequence[int], sizes: Sequence[int]) -> tuple[int, ...]:
        """The slots of inputs, where constants at `sizes` are tuples: a device is not asked."""
        found = list(taken)
        for at in sizes:
            constant = self.values.get(found[at]) if at < len(found) else None
            if isinstance(constant, torch.Tensor):
                found[at] = self.number(f"{found[at]} as integers")
                self.values[found[at]] = tuple(constant.reshape(-1).tolist())
        return tuple(found)

    def is_known(self, name: str) -> bool:
        """Whether a value is a constant."""
        return bool(name) and self.numbers.get(name) in self.values

    def is_open(self, name: str) -> bool:
        """Whether a value exists and is not a constant."""
        return name in self.numbers and not self.is_known(name)

    def known(self, name: str) -> Any:
        """The value of a constant."""
        return self.values[self.numbers[name]]
