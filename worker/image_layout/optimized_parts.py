"""Optimized parts: the optimized joined segment, cut at the collectives again."""

from __future__ import annotations

from collections.abc import Sequence

from onnx import ModelProto, NodeProto, TensorProto, ValueInfoProto

from ...comm.errors import ModelError
from ...compiler.element_types.value_types import TensorType
from ...compiler.onnx_graph.collective_nodes import DOMAIN
from ...compiler.onnx_graph.onnx_values import needed, uses, value_info
from ..partition.plan import CollectiveStep, Plan, Segment


class OptimizedParts:
    """The nodes of an optimized model between the collectives of a plan.

    A node is computed in the part that first needs its result: other ranks may wait for the next
    collective.
    """

    def __init__(self, plan: Plan, model: ModelProto) -> None:
        """Raises ModelError where an operand needs the result of a later collective: optimized
        nodes may have several results.
        """
        self._model = model
        self._exchanges = [step for step in plan.steps if isinstance(step, CollectiveStep)]
        self._outputs = [one.value for one in plan.outputs]
        self._weights = {one.name: one for one in model.graph.initializer}
        self._parts: list[list[NodeProto]] = [[] for _ in range(len(self._exchanges) + 1)]
        due = dict.fromkeys(self._outputs, len(self._exchanges))
        for number, one in reversed([*enumerate(self._exchanges)]):
            due.update(dict.fromkeys(one.inputs, number))
        for node in reversed(needed(model.graph.node, due, DOMAIN)):
            part = min(due[name] for name in node.output if name in due)
            due.update((name, min(part, due.get(name, part))) for name in uses(node))
            self._parts[part].insert(0, node)
        self._require_order(plan, due)

    def _require_order(self, plan: Plan, due: dict[str, int]) -> None:
        """Require that what is due to be computed at a collective can be."""
        known = {one.value for one in plan.inputs} | plan.constants.keys() | self._weights.keys()
        known.update(name for part in self._parts for node in part for name in node.output)
        for number, one in enumerate(self._exchanges):
            if any(due.get(name, number + 1) <= number for name in one.outputs):
                raise ModelError(f"what {one.call.node} takes needs its result once optimized.")
            known.update(one.outputs)
        missing = due.keys() - known
        if missing:
            raise ModelError(f"nothing makes the value '{min(missing)}' once optimized.")

    @property
    def folded(self) -> dict[str, TensorProto]:
        """The values that collectives or outputs take, and that are constants once optimized.

        No part makes them: they were computed from weights alone.
        """
        taken = [name for one in self._exchanges for name in one.inputs] + self._outputs
        return {name: self._weights[name] for name in taken if name in self._weights}

    @property
    def steps(self) -> list[CollectiveStep | int]:
        """The collectives, and between them the numbers of the parts that compute something."""
        found: list[CollectiveStep | int] = []
        for number, nodes in enumerate(self._parts):
            found += [number] if nodes else []
            found += self._exchanges[number : number + 1]
        return found

    def segment(self, number: int, types: dict[str, TensorType]) -> Segment:
        """A part, whose inputs have `types`, as outputs may."""
        nodes = self._parts[number]
        made = [name for node in nodes for name in node.output]
        taken = list(dict.fromkeys(name for node in nodes for name in uses(node)))
        later = {name for part in self._parts[number + 1 :] for node in part for name in uses(node)}
        later.update(name for one in self._exchanges[number:] for name in one.inputs)
        later.update(self._outputs)
        outputs = [name for name in made if name in later]
        inputs = [name for name in taken if name not in self._weights and name not in {*made}]
        model = self._part_model(nodes)
        model.graph.initializer.extend(self._weights[n] for n in taken if n in self._weights)
        model.graph.input.extend(value_info(name, types[name]) for name in inputs)
        model.graph.output.extend(_declared(name, types) for name in outputs)
        return Segment(model, tuple(inputs), tuple(outputs))

    def _part_model(self, nodes: Sequence[NodeProto]) -> ModelProto:
        whole = self._model
        model = ModelProto(ir_version=whole.ir_version, opset_import=whole.opset_import)
        model.graph.name = "part"
        model.graph.node.extend(nodes)
        return model


def _declared(name: str, types: dict[str, TensorType]) -> ValueInfoProto:
    return value_info(name, types[name]) if name in types else ValueInfoProto(name=name)
