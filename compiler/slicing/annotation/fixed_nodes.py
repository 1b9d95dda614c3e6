"""Fixed nodes: the placements and stages that a model's annotations prescribe."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import onnx_ir as ir

from ....comm.errors import UsageError
from ....comm.text import counted
from ...source_graph.annotations import NodeAnnotation, OperandShards
from ...source_graph.dims import fixed
from ...source_graph.source_graph import SourceGraph, operator
from ..emission.conversions import convertible
from ..placement.operator_node import NodeOperand, OperatorNode, Strategy, operator_nodes
from ..placement.placement_text import placement_of
from ..placement.placements import WHOLE, Placement
from .sharded_axis import split_of

Prescribed = Mapping[NodeOperand, Placement]
"""The placements that some operands of a node must have."""


@dataclass(frozen=True, slots=True)
class FixedNodes:
    """The prescriptions of annotations: placements and the stage of nodes, by name.

    `everywhere` has the nodes that every stage computes; `path` is the model's.
    """

    nodes: Mapping[str, Prescribed] = field(default_factory=dict)
    stage_of: Mapping[str, int] = field(default_factory=dict)
    everywhere: frozenset[str] = frozenset()
    path: str = ""

    def allows(self, node: str, strategy: Strategy) -> bool:
        """Whether a strategy of a node is as its annotation prescribes."""
        return all(
            (strategy.outputs if one.is_output else strategy.inputs)[one.index] == placement
            for one, placement in self.nodes.get(node, {}).items()
        )


FREE = FixedNodes()
"""Nothing is prescribed."""


def fixed_nodes(graph: SourceGraph, ranks: int, stages: int, path: str) -> FixedNodes:
    """The prescriptions of a model's annotations for stages of `ranks` ranks each.

    UsageError names the node whose annotation is impossible, or contradicts another one.
    """
    if not graph.annotations:
        return FREE
    chosen = _chosen(graph, ranks * stages, path)
    nodes = operator_nodes(graph, ranks)
    found: dict[str, Prescribed] = {}
    stage_of = {name: one.stage for name, one in chosen.items() if one.stage is not None}
    _check_stages(graph, stage_of, stages, path)
    for name, annotation in chosen.items():
        try:
            first = (annotation.stage or 0) * ranks
            found[name] = dict(_prescribed(nodes[name], annotation, first, ranks * stages))
        except ValueError as error:
            raise UsageError(
                f"{path}: node {name} ({operator(nodes[name].node)}): its annotation: {error}."
            ) from error
    _check_neighbours(graph, found, path)
    everywhere = frozenset(set(chosen) - set(stage_of)) if stage_of else frozenset[str]()
    return FixedNodes(found, stage_of, everywhere, path)


def _chosen(graph: SourceGraph, devices: int, path: str) -> dict[str, NodeAnnotation]:
    """The annotation of each node for so many devices."""
    all_of = [one for annotations in graph.annotations.values() for one in annotations]
    names = [one.configuration for one in all_of if one.devices == devices]
    if not names:
        known = sorted({f"{one.configuration} of {one.devices} devices" for one in all_of})
        raise UsageError(
            f"{path}: is annotated for {', '.join(known)}, and the plan has {devices} ranks: plan "
            "as many, or remove the annotations."
        )
    return {
        name: one
        for name, annotations in graph.annotations.items()
        for one in annotations
        if one.configuration == names[0]
    }


def _prescribed(
    node: OperatorNode, annotation: NodeAnnotation, first: int, world_size: int
) -> Iterator[tuple[NodeOperand, Placement]]:
    if annotation.strays:
        raise ValueError("a sharding spec names a tensor that is no input or output of the node")
    if annotation.note:
        yield from _noted(node, annotation.note)
    for shards in annotation.operands:
        operand = NodeOperand(shards.index, shards.is_output)
        yield operand, _placement(node, operand, shards, first, world_size)


def _noted(node: OperatorNode, note: str) -> Iterator[tuple[NodeOperand, Placement]]:
    """The placements for which ONNX has no words, from the node's metadata."""
    try:
        texts = json.loads(note)
        sides = [[placement_of(text, node.ranks) for text in texts[key]] for key in _SIDES]
    except (json.JSONDecodeError, TypeError, KeyError) as error:
        raise ValueError(f"its metadata are no placements: {error}") from error
    for is_output, placements in enumerate(sides):
        count = len(node.outputs if is_output else node.inputs)
        if len(placements) != count:
            raise ValueError(f"its metadata have {len(placements)} {_SIDES[is_output]} of {count}")
        for index, placement in enumerate(placements):
            yield NodeOperand(index, bool(is_output)), placement


_SIDES = ("inputs", "outputs")


def _placement(
    node: OperatorNode, operand: NodeOperand, shards: OperandShards, first: int, world_size: int
) -> Placement:
    what = f"{'output' if operand.is_output else 'input'} {operand.index}"
    expected = tuple(range(first, first + node.ranks))
    if shards.groups or shards.devices not in ((), expected, tuple(range(world_size))):
        raise ValueError(
            f"{what} lies on the devices {list(shards.devices)}"
            f"{' with groups' if shards.groups else ''}, expected {list(expected)}"
        )
    divided = [one for one in shards.axes if any(count != 1 for _, count in one[1])]
    if not divided:
        return WHOLE
    if len(divided) > 1:
        raise ValueError(f"{what} is divided along {len(divided)} axes, expected one")
    ((axis, factors),) = divided
    dims = node.dims(operand)
    if dims is None or not -len(dims) <= axis < len(dims):
        raise ValueError(f"{what} has no axis {axis} of a known length")
    length = fixed(dims[axis])
    if length is None:
        raise ValueError(f"axis {axis} of {what} is an open dimension, which cannot be split")
    try:
        return split_of(axis % len(dims), factors, length, node.ranks)
    except ValueError as error:
        raise ValueError(f"{what}: {error}") from error


def _check_stages(graph: SourceGraph, stage_of: Mapping[str, int], stages: int, path: str) -> None:
    """Raise UsageError unless the stages are those of the plan."""
    wrong = next((name for name, stage in stage_of.items() if not 0 <= stage < stages), None)
    if wrong is not None:
        raise UsageError(
            f"{path}: node {wrong}: its annotation has stage {stage_of[wrong]}, and the plan has "
            f"{counted(stages, 'stage')}: plan as many stages, or remove the annotations."
        )
    missing = [str(node.name) for node in graph.nodes if str(node.name) not in graph.annotations]
    if stages > 1 and stage_of and missing:
        raise UsageError(
            f"{path}: node {missing[0]}: has no annotation, and other nodes have stages: annotate "
            "all nodes of a pipeline, or leave the stages out."
        )


def _check_neighbours(graph: SourceGraph, found: Mapping[str, Prescribed], path: str) -> None:
    """Raise UsageError where a node must take a value as it cannot be had."""
    for node in graph.nodes:
        for index, value in enumerate(node.inputs):
            needed = found.get(str(node.name), {}).get(NodeOperand(index))
            source = value.producer() if value is not None else None
            if needed is None or value is None or value.is_initializer():
                continue
            made: Placement | None = WHOLE
            if source is not None:
                made = _made(found, source, value)
            if made is not None and made != needed and not convertible(made, needed):
                maker = f"node {source.name}" if source is not None else "the caller"
                raise UsageError(
                    f"{path}: node {node.name} ({operator(node)}): its annotation needs input "
                    f"{index} as {needed}, and {maker} gives it as {made}: there is no such "
                    "conversion."
                )


def _made(found: Mapping[str, Prescribed], source: ir.Node, value: ir.Value) -> Placement | None:
    """The placement in which a node must compute a value; None where it is free."""
    index = value.index()
    assert index is not None
    return found.get(str(source.name), {}).get(NodeOperand(index, True))


def describe(prescribed: Prescribed) -> str:
    """Prescribed placements as a text."""
    sides: Sequence[str] = ("input", "output")
    return ", ".join(
        f"{sides[one.is_output]} {one.index} {placement}" for one, placement in prescribed.items()
    )
