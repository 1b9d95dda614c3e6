"""Blocks of a graph: cut it into models of their own, so that a large model is proved in pieces.

A block takes the values that enter it whole, gives them the placements that they have in the plan,
and returns its values whole. Only the weights of one block are in memory.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import onnx_ir as ir
from onnx_ir import convenience

from ...source_graph.source_graph import SourceGraph
from ..placement.operator_node import Strategy
from ..placement.placements import WHOLE, Placement
from ..placement.slice_plan import SlicePlan, produced_placements
from .crossing_graph import crossing_graph
from .stage_layout import stage_layout
from .trial import is_numeric

_ENTRY = ".whole"
"""The end of the names of inputs that a block gives another placement."""


@dataclass(frozen=True, slots=True)
class ProofBlock:
    """A part of a graph with the plan for it.

    `inputs` has the values of the whole graph that enter it, by the names of its inputs; `outputs`
    the values that it returns, in order; `done` those that no later block takes. Its first node
    belongs to `stage`.
    """

    graph: SourceGraph
    plan: SlicePlan
    inputs: Mapping[str, str]
    outputs: Sequence[str]
    done: Sequence[str]
    stage: int


class BlockCutter:
    """Cuts a graph into blocks with weights of about `most` bytes each.

    `most` is None for one block, or one for each stage. A node that several stages compute is in
    blocks of each. Behind each stage comes a block that sends its values to the next one; last the
    whole pipeline, where its weights fit into one block, or `most` is None.
    """

    def __init__(self, graph: SourceGraph, plan: SlicePlan, most: int | None) -> None:
        self._graph = graph
        self._plan = plan
        self._most = most
        self._layout = stage_layout(graph, plan)
        self._stages = [stage for stage, nodes in enumerate(self._layout.nodes) for _ in nodes]
        self._nodes = [
            node for nodes in self._layout.nodes for node in graph.nodes if str(node.name) in nodes
        ]
        self._last: dict[str, int] = {}
        for position, node in enumerate(self._nodes):
            self._last.update(dict.fromkeys(_taken(node), position))
        for value in graph.model.graph.outputs:
            self._last[str(value.name)] = len(self._nodes)
        self._produced = produced_placements(graph, plan)
        self._inputs = {str(value.name) for value in graph.model.graph.inputs}
        self._ends = self._found_ends()

    def __len__(self) -> int:
        """The number of blocks, or a few more."""
        return len(self._ends) + self._plan.stages - 1

    def _found_ends(self) -> Sequence[int]:
        """The positions behind the last node of each block."""
        found: list[int] = []
        uncut = self._uncut()
        size, seen = 0, set[str]()
        for position, node in enumerate(self._nodes):
            if self._stage_begins(position) or position not in uncut and self._is_full(size):
                found.append(position)
                size, seen = 0, set()
            for value in node.inputs:
                if value is not None and value.const_value is not None and value.name not in seen:
                    seen.add(str(value.name))
                    size += value.const_value.nbytes if is_plain(value) else 0
        return [*found, len(self._nodes)]

    def _stage_begins(self, position: int) -> bool:
        return position > 0 and self._stages[position] != self._stages[position - 1]

    def _is_full(self, size: int) -> bool:
        return self._most is not None and size > self._most

    def _uncut(self) -> set[int]:
        """The positions over which a value passes that no array can hold, such as a sequence."""
        return {
            between
            for position, node in enumerate(self._nodes)
            for value in node.outputs
            if value.name and not is_plain(value)
            for between in range(position + 1, self._last.get(str(value.name), 0) + 1)
        }

    def __iter__(self) -> Iterator[ProofBlock]:
        values = {str(v.name): v for node in self._graph.nodes for v in node.outputs}
        crossing = [[values[name] for name in names] for names in self._layout.crossing]
        held = all(is_plain(value) for found in crossing for value in found)
        if held:
            yield from self._blocks(crossing)
        if self._plan.stages > 1 and not (held and self._is_full(self._weights())):
            yield self._pipeline()

    def _blocks(self, crossing: Sequence[Sequence[ir.Value]]) -> Iterator[ProofBlock]:
        start = 0
        for stop in self._ends:
            block = self._block(self._nodes[start:stop], start, stop)
            if block is not None:
                yield block
            if stop < len(self._nodes) and self._stage_begins(stop):
                yield self._crossing(self._stages[start], crossing[self._stages[start]])
            start = stop

    def _crossing(self, stage: int, values: Sequence[ir.Value]) -> ProofBlock:
        """The block of the values that a stage sends to the next one."""
        sent = {str(value.name): self._placement(str(value.name), stage) for value in values}
        arrive = {name: self._layout.placements[name] for name in sent}
        graph, plan = crossing_graph(self._graph, values, sent, arrive, self._plan.ranks)
        inputs = {str(v.name): name for v, name in zip(graph.model.graph.inputs, sent, strict=True)}
        return ProofBlock(graph, plan, inputs, list(sent), (), stage)

    def _pipeline(self) -> ProofBlock:
        """All stages together."""
        graph = replace(self._graph, model=self._graph.model.clone())
        inputs = {str(value.name): str(value.name) for value in graph.model.graph.inputs}
        outputs = [str(value.name) for value in graph.model.graph.outputs]
        return ProofBlock(graph, self._plan, inputs, outputs, (), 0)

    def _weights(self) -> int:
        tensors = (value.const_value for value in self._graph.weights.values())
        return sum(tensor.nbytes for tensor in tensors if tensor is not None)

    def _placement(self, name: str, stage: int) -> Placement:
        """How a stage holds a value: as it computed it, or as it received it."""
        if stage and name in self._layout.crossing[stage - 1]:
            return self._layout.placements[name]
        return self._produced[name]

    def _block(self, nodes: Sequence[ir.Node], start: int, stop: int) -> ProofBlock | None:
        made = [value for node in nodes for value in node.outputs if value.name]
        own = {str(value.name) for value in made}
        taken = dict.fromkeys(
            name
            for node in nodes
            for name in _taken(node)
            if name in self._produced and name not in own
        )
        whole = self._whole(nodes)
        returned = [
            name
            for name, plain in ((str(value.name), is_plain(value)) for value in made)
            if plain and (name in whole or self._last.get(name, -1) >= stop)
        ]
        if not returned:
            return None
        inner = convenience.extract(self._graph.model.graph, list(taken), returned)
        done = [
            name
            for name in (*taken, *returned)
            if self._last.get(name, -1) < stop and name not in self._inputs
        ]
        entries, strategies = self._enter(inner, self._stages[start])
        for node in inner:
            known = self._plan.strategies.get(str(node.name))
            if known is not None:
                strategies[str(node.name)] = known
        model = ir.Model(inner, ir_version=self._graph.model.ir_version or 10)
        dims = dict(self._graph.dims)
        dims.update({key: dims[name] for key, name in entries.items() if name in dims})
        graph = replace(self._graph, model=model, dims=dims)
        plan = SlicePlan(self._plan.ranks, strategies)
        return ProofBlock(graph, plan, entries, returned, done, self._stages[start])

    def _whole(self, nodes: Sequence[ir.Node]) -> set[str]:
        """The values that these nodes make, or take, whole on every rank."""
        found = set()
        for node in nodes:
            name = str(node.name)
            for index, value in enumerate(node.outputs):
                if self._plan.produced(name, index) == WHOLE:
                    found.add(str(value.name))
            for index, taken in enumerate(node.inputs):
                if taken is not None and self._plan.needed(name, index) == WHOLE:
                    found.add(str(taken.name))
        return found

    def _enter(self, inner: ir.Graph, stage: int) -> tuple[dict[str, str], dict[str, Strategy]]:
        """Give the inputs of a block the placements of the plan, by an Identity each."""
        entries: dict[str, str] = {}
        strategies: dict[str, Strategy] = {}
        for value in inner.inputs:
            name = str(value.name)
            placement = self._placement(name, stage)
            if placement == WHOLE:
                entries[name] = name
                continue
            made = ir.node("Identity", [value], name=f"{name}.entry")
            value.name = name + _ENTRY
            entries[value.name] = name
            made.outputs[0].name, made.outputs[0].type = name, value.type
            value.replace_all_uses_with(made.outputs[0])
            made.replace_input_with(0, value)
            inner.insert_before(inner[0], made)
            strategies[str(made.name)] = Strategy((placement,), (placement,))
        return entries, strategies


def is_plain(value: ir.Value) -> bool:
    """Whether a value is a tensor of a type that numpy has."""
    if value.dtype is None or isinstance(value.type, (ir.SequenceType, ir.OptionalType)):
        return False
    return value.dtype != ir.DataType.STRING and is_numeric(value.dtype.numpy())


def _taken(node: ir.Node) -> Iterator[str]:
    """The names of all values that a node and its bodies take; a body's own are among them."""
    for value in node.inputs:
        if value is not None:
            yield str(value.name)
    for one in node.attributes.values():
        bodies: Sequence[ir.Graph] = ()
        if one.type == ir.AttributeType.GRAPH:
            bodies = [one.as_graph()]
        elif one.type == ir.AttributeType.GRAPHS:
            bodies = one.as_graphs()
        for body in bodies:
            for inner in body:
                yield from _taken(inner)
            yield from (str(value.name) for value in body.outputs)
