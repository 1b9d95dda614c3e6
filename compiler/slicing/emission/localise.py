"""Localisation: the graph and the weights of each rank, as a plan says.

The graph of a rank is a copy of the whole one. Each node's inputs are converted to the placements
that its strategy needs, and the node is adapted to its parts by its rule.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import onnx_ir as ir

from ....comm.errors import ModelError
from ...source_graph.dims import Dims
from ...source_graph.source_graph import SourceGraph, operator
from ..placement.local_node import LocalGraph, LocalNode
from ..placement.operator_node import operator_nodes
from ..placement.placements import SUM, WHOLE, Placement, Replicated
from ..placement.slice_plan import SlicePlan, produced_placements
from ..placement.wide_sums import held_dtype
from ..rules import RULES
from .conversions import ConversionEmitter
from .stage_ends import StageEnds, local_shape
from .stage_layout import bodies, stage_layout
from .weight_part import WeightPart
from .widener import Widener


@dataclass(frozen=True, slots=True)
class LocalModel:
    """The model of one rank.

    `weights` says which part of which weight each initializer is, by its name; other initializers
    are constants of the rank.
    """

    model: ir.Model
    weights: Mapping[str, WeightPart]


def local_model(graph: SourceGraph, plan: SlicePlan, rank: int) -> ir.Model:
    """The model of `rank`, whose weights are read when it is saved."""
    return localise(graph, plan, rank).model


def localise(graph: SourceGraph, plan: SlicePlan, rank: int) -> LocalModel:
    """The model of `rank`, with what is known of its weights and values."""
    model = graph.model.clone()
    found = _Localisation(graph, plan, rank, model).run()
    model.opset_imports["rankmesh"] = 1
    return found


class _Localisation:
    """The work on the graph of one rank."""

    def __init__(self, graph: SourceGraph, plan: SlicePlan, rank: int, model: ir.Model) -> None:
        self._source = graph
        self._plan = plan
        self._graph = model.graph
        self._rank = rank % plan.ranks
        self._local = LocalGraph(model.graph, self._rank)
        members = range(rank - self._rank, rank - self._rank + plan.ranks)
        self._converter = ConversionEmitter(self._local, members, plan.world_size)
        self._ends = StageEnds(model.graph, stage_layout(graph, plan), plan, rank, graph.dims)
        self._whole = operator_nodes(graph, plan.ranks)
        self._produced = produced_placements(graph, plan)
        self._produced.update(self._ends.received)
        self._widener = Widener(self._local)
        self._values = {str(v.name): v for node in graph.nodes for v in node.outputs}
        self._converted: dict[tuple[str, Placement], ir.Value] = {}
        self._model = model

    def run(self) -> LocalModel:
        """Adapt all nodes of the stage, in order, then the outputs."""
        self._ends.isolate(self._local)
        originals = {name: value for name, value in self._graph.initializers.items()}
        for node in list(self._graph):
            if node.domain != "rankmesh":
                self._adapt(node, originals)
        self._send(originals)
        self._take_outputs(originals)
        self._ends.end(self._local)
        for name, value in originals.items():
            if not value.uses() and not value.is_graph_output():
                self._graph.initializers.pop(name, None)
        for value, whole in zip(self._graph.outputs, self._source.model.graph.outputs, strict=True):
            value.type, value.shape = whole.type, whole.shape
        self._localise_states()
        return LocalModel(self._model, self._weights(originals))

    def _take_outputs(self, originals: Mapping[str, ir.Value]) -> None:
        """Let the graph give out whole values; one that is listed twice is the same both times."""
        found: dict[ir.Value, ir.Value] = {}
        states = self._source.states
        for index, value in enumerate(list(self._graph.outputs)):
            if value.name in states:
                found[value] = value
            elif value not in found:
                found[value] = self._output(value, originals)
            self._graph.outputs[index] = found[value]

    def _localise_states(self) -> None:
        """Have states come and go as the parts of this rank. ModelError where a rank would keep
        another part than it takes.
        """
        taken = {str(value.name): value for value in self._graph.inputs}
        for value in self._graph.outputs:
            name = self._source.states.get(str(value.name))
            if name is None:
                continue
            placement = self._produced[str(value.name)]
            dims = self._source.dims[str(value.name)]
            value.shape = self._shape(dims, placement)
            if name:
                self._take_part(taken[name], placement)

    def _take_part(self, state: ir.Value, placement: Placement) -> None:
        """Let an input be the part of it that nodes take."""
        name = str(state.name)
        part = self._converted.get((name, placement))
        if placement == WHOLE or part is None:
            others = [one for known, one in self._converted if known == name and one != WHOLE]
            if placement != WHOLE or others:
                raise ModelError(
                    f"the state '{name}' is kept as {placement}, and taken as "
                    f"{', '.join(map(str, others)) or 'a whole'}: such a model is not sliced."
                )
            return
        ir.convenience.replace_all_uses_with(part, state)
        self._remove_maker(part)
        state.shape = self._shape(self._source.dims[name], placement)

    def _remove_maker(self, value: ir.Value) -> None:
        """Remove the nodes that make a value which nothing takes."""
        maker = value.producer()
        if maker is None or any(one.uses() or one.is_graph_output() for one in maker.outputs):
            return
        taken = [one for one in maker.inputs if one is not None]
        self._graph.remove(maker, safe=True)
        for one in taken:
            self._remove_maker(one)

    def _weights(self, originals: Mapping[str, ir.Value]) -> dict[str, WeightPart]:
        """The initializers that are weights; the only part of a weight takes the weight's name."""
        parts: dict[str, list[tuple[Placement, ir.Value]]] = {name: [] for name in originals}
        for (name, placement), value in self._converted.items():
            if name in parts:
                parts[name].append((placement, value))
        found = {}
        for name, placed in parts.items():
            tensor = originals[name].const_value
            assert tensor is not None
            for placement, value in placed:
                if len(placed) == 1:
                    value.name = name
                found[str(value.name)] = WeightPart(name, tensor, placement, self._rank)
        return found

    def _send(self, weights: Mapping[str, ir.Value]) -> None:
        """Send the next stage what it takes, all of it converted before."""
        made = {str(value.name): value for node in self._graph for value in node.outputs}
        ready = [
            (name, self._as(made[name], placement, weights, None))
            for name, placement in self._ends.sent
        ]
        for name, value in ready:
            self._ends.send(self._local, name, value)

    def _adapt(self, node: ir.Node, weights: Mapping[str, ir.Value]) -> None:
        name = str(node.name)
        self._feed_bodies(node, weights)
        for index, value in enumerate(node.inputs):
            if value is not None:
                needed = self._plan.needed(name, index)
                node.replace_input_with(index, self._as(value, needed, weights, node))
        if self._adds_wide(node):
            self._widener.widen(node)
        strategy = self._plan.strategies.get(name)
        whole = self._whole[name]
        self._annotate(node)
        rule = RULES.get(operator(node))
        if rule is not None and strategy is not None and strategy != whole.whole:
            rule.localise(LocalNode(self._local, node, whole, strategy))

    def _adds_wide(self, node: ir.Node) -> bool:
        """Whether a node takes or makes a term of a sum that is wider than the sum."""
        name = str(node.name)
        source = self._whole[name].node
        taken = ((v, self._plan.needed(name, i)) for i, v in enumerate(source.inputs) if v)
        made = ((v, self._plan.produced(name, i)) for i, v in enumerate(source.outputs))
        return any(held_dtype(value, one) != value.dtype for value, one in (*taken, *made))

    def _feed_bodies(self, node: ir.Node, weights: Mapping[str, ir.Value]) -> None:
        """Give the bodies of a node whole values for those that they take from outside."""
        for graph in bodies(node):
            for inner in graph.all_nodes():
                for index, value in enumerate(inner.inputs):
                    if value is not None and self._is_outer(value):
                        inner.replace_input_with(index, self._as(value, WHOLE, weights, node))
            for index, value in enumerate(graph.outputs):
                if self._is_outer(value):
                    graph.outputs[index] = self._as(value, WHOLE, weights, node)

    def _is_outer(self, value: ir.Value) -> bool:
        """Whether a value belongs to the main graph."""
        producer = value.producer()
        owner = producer.graph if producer is not None else value.graph
        return owner is self._graph

    def _as(
        self,
        value: ir.Value,
        needed: Placement,
        weights: Mapping[str, ir.Value],
        user: ir.Node | None,
    ) -> ir.Value:
        """A value in the placement that a node needs."""
        name = str(value.name)
        made = self._converted.get((name, needed))
        if made is not None:
            return made
        if name in weights:
            found = self._weight(weights[name], needed)
        else:
            found = self._moved(value, needed, user)
        self._converted[name, needed] = found
        return found

    def _moved(self, value: ir.Value, needed: Placement, user: ir.Node | None) -> ir.Value:
        before = self._produced.get(str(value.name), WHOLE)
        if before == needed:
            return value
        dims = self._source.dims[str(value.name)]
        found, nodes = self._converter.convert(value, dims, before, needed)
        if before == SUM and self._values[str(value.name)].dtype != found.dtype:
            found = self._widener.narrow(found, nodes)
        for node in nodes:
            if user is None:
                self._graph.append(node)
            else:
                user.prepend(node)
        found.shape = self._shape(dims, needed)
        return found

    def _weight(self, value: ir.Value, needed: Placement) -> ir.Value:
        """A weight's part."""
        if isinstance(needed, Replicated):
            return value
        tensor = value.const_value
        assert tensor is not None
        part = WeightPart(str(value.name), tensor, needed, self._rank)
        made = ir.val(self._local.fresh(f"{value.name}.part"), const_value=part.lazy)
        made.dtype, made.shape = tensor.dtype, ir.Shape(part.shape)
        self._graph.register_initializer(made)
        return made

    def _output(self, value: ir.Value, weights: Mapping[str, ir.Value]) -> ir.Value:
        name = str(value.name)
        whole = self._as(value, WHOLE, weights, None)
        if whole is not value:
            value.name, whole.name = self._local.fresh(f"{value.name}.local"), value.name
            whole.type = self._values[name].type if name in self._values else value.type
        return whole

    def _annotate(self, node: ir.Node) -> None:
        """Declare the shapes of a node's outputs on this rank."""
        for index, value in enumerate(node.outputs):
            placement = self._plan.produced(str(node.name), index)
            if placement != WHOLE or not value.is_graph_output():
                value.shape = self._shape(self._source.dims.get(str(value.name)), placement)

    def _shape(self, dims: Dims | None, placement: Placement) -> ir.Shape | None:
        return None if dims is None else ir.Shape(local_shape(dims, placement, self._rank))
