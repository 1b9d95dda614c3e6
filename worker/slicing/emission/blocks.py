"""Blocks of a graph: cut it into models of their own, so that a large model is proved in pieces.

A block takes the values that enter it whole, gives them the placements that they have in the plan,
and returns its values whole. Only the weights of one block are in memory.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import onnx_ir as ir
from onnx_ir import convenience

from ..graph.source_graph import SourceGraph
from ..placement.operator_node import Strategy
from ..placement.placements import WHOLE, Placement
from ..placement.slice_plan import SlicePlan

_ENTRY = ".whole"
"""The end of the names of inputs that a block gives another placement."""


@dataclass(frozen=True, slots=True)
class ProofBlock:
    """A part of a graph with the plan for it.

    `inputs` has the values of the whole graph that enter it, by the names of its inputs; `outputs`
    the values that it returns, in order; `done` those that no later block takes. All of its nodes
    belong to `stage`.
    """

    graph: SourceGraph
    plan: SlicePlan
    inputs: Mapping[str, str]
    outputs: Sequence[str]
    done: Sequence[str]
    stage: int


class BlockCutter:
    """Cuts a graph into blocks with weights of about `most` bytes each; None: one block."""

    def __init__(self, graph: SourceGraph, plan: SlicePlan, most: int | None) -> None:
        self._graph = graph
        self._plan = plan
        self._nodes = graph.nodes
        self._most = most
        self._last: dict[str, int] = {}
        self._produced: dict[str, Placement] = {
            str(value.name): WHOLE for value in graph.model.graph.inputs
        }
        for position, node in enumerate(self._nodes):
            self._last.update(dict.fromkeys(_taken(node), position))
            for index, value in enumerate(node.outputs):
                self._produced[str(value.name)] = plan.produced(str(node.name), index)
        for value in graph.model.graph.outputs:
            self._last[str(value.name)] = len(self._nodes)
        self._stages = _stages(self._nodes, plan)
        self.ends = self._ends()

    def _ends(self) -> Sequence[int]:
        """The positions behind the last node of each block."""
        found: list[int] = []
        uncut = self._uncut()
        size, seen = 0, set[str]()
        for position, node in enumerate(self._nodes):
            if position not in uncut and self._is_full(position, size):
                found.append(position)
                size, seen = 0, set()
            for value in node.inputs:
                if value is not None and value.const_value is not None and value.name not in seen:
                    seen.add(str(value.name))
                    size += value.const_value.nbytes if is_plain(value) else 0
        return [*found, len(self._nodes)]

    def _is_full(self, position: int, size: int) -> bool:
        """Whether a block ends before a node: it has enough weights, or a stage ends."""
        if self._most is None or position == 0:
            return False
        return size > self._most or self._stages[position] != self._stages[position - 1]

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
        start = 0
        for stop in self.ends:
            block = self._block(self._nodes[start:stop], start, stop)
            if block is not None:
                yield block
            start = stop

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
        done = [name for name in (*taken, *returned) if self._last.get(name, -1) < stop]
        entries, strategies = self._enter(inner)
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

    def _enter(self, inner: ir.Graph) -> tuple[dict[str, str], dict[str, Strategy]]:
        """Give the inputs of a block the placements of the plan, by an Identity each."""
        entries: dict[str, str] = {}
        strategies: dict[str, Strategy] = {}
        for value in inner.inputs:
            name = str(value.name)
            placement = self._produced[name]
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


def _stages(nodes: Sequence[ir.Node], plan: SlicePlan) -> list[int]:
    """The stage of each node; those that every stage computes stay with the one before."""
    found, here = [], 0
    for node in nodes:
        here = here if node.name in plan.everywhere else plan.stage(str(node.name))
        found.append(here)
    return found


def is_plain(value: ir.Value) -> bool:
    """Whether a value is a tensor of a type that numpy has."""
    if value.dtype is None or isinstance(value.type, (ir.SequenceType, ir.OptionalType)):
        return False
    return value.dtype != ir.DataType.STRING and value.dtype.numpy().kind in "biuf"


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
