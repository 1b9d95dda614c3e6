"""Stage weights: tell the weights that each stage of a plan stores, and the bytes of each rank."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import onnx_ir as ir

from ...source_graph.source_graph import SourceGraph
from ..emission.stage_layout import StageLayout, captured_values
from ..emission.weight_part import WeightPart
from ..placement.placements import WHOLE, Placement
from ..placement.slice_plan import SlicePlan

StoredWeight = tuple[str, Placement]
"""A weight by its name, and how a stage holds it."""


def taken_weights(graph: SourceGraph, plan: SlicePlan, node: ir.Node) -> Iterator[StoredWeight]:
    """The weights that a node and its bodies take."""
    for index, value in enumerate(node.inputs):
        if value is not None and str(value.name) in graph.weights:
            yield str(value.name), plan.needed(str(node.name), index)
    for value in captured_values(node):
        if str(value.name) in graph.weights:
            yield str(value.name), WHOLE


def stage_weights(
    graph: SourceGraph, plan: SlicePlan, layout: StageLayout
) -> Sequence[Mapping[StoredWeight, None]]:
    """The weights of each stage, in the order of its nodes."""
    found: list[dict[StoredWeight, None]] = [{} for _ in layout.nodes]
    for node in graph.nodes:
        taken = dict.fromkeys(taken_weights(graph, plan, node))
        for stage, names in enumerate(layout.nodes):
            if str(node.name) in names:
                found[stage] |= taken
    return found


def rank_bytes(
    graph: SourceGraph, plan: SlicePlan, layout: StageLayout
) -> Sequence[Mapping[StoredWeight, int]]:
    """The bytes of each weight that a rank stores, for each rank."""
    return [
        {one: _nbytes(graph, one, rank) for one in weights}
        for weights in stage_weights(graph, plan, layout)
        for rank in range(plan.ranks)
    ]


def is_vector(value: ir.Value) -> bool:
    """Whether at most one axis of a value has more than one element."""
    return sum(size != 1 for size in value.shape or ()) < 2


def _nbytes(graph: SourceGraph, weight: StoredWeight, rank: int) -> int:
    name, placement = weight
    tensor = graph.weights[name].const_value
    assert tensor is not None
    return WeightPart(name, tensor, placement, rank).nbytes
