"""Stage layout: tells the nodes of each stage of a pipeline, and the values that leave it.

Values go from each stage to the next one only. A value that a later stage needs passes through
those between, so that no stage ever waits for another than its neighbours. A node that every stage
may compute for itself is computed in all stages that need its outputs.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import onnx_ir as ir

from ....comm.errors import ModelError
from ...source_graph.source_graph import SourceGraph
from ..placement.placements import WHOLE, Partial, Placement
from ..placement.slice_plan import SlicePlan, produced_placements


@dataclass(frozen=True, slots=True)
class StageLayout:
    """The nodes and the values of each stage.

    `nodes` has the names of the nodes of each stage, `crossing` the values that leave it for the
    next one, in the order of their computation, `placements` how these are held while they cross.
    """

    nodes: Sequence[frozenset[str]]
    crossing: Sequence[Sequence[str]]
    placements: Mapping[str, Placement]


def stage_layout(graph: SourceGraph, plan: SlicePlan) -> StageLayout:
    """The layout of a plan's stages; ModelError, which names the node, where one is impossible."""
    computed, wanted = _wanted(graph, plan)
    crossing: list[list[str]] = [[] for _ in range(plan.stages - 1)]
    placements: dict[str, Placement] = {}
    crossings = crossing_placements(graph, plan)
    for node in graph.nodes:
        if str(node.name) in plan.everywhere:
            continue
        stage = plan.stage(str(node.name))
        for value in node.outputs:
            name = str(value.name)
            last = max(wanted[name], default=stage)
            if min(wanted[name], default=stage) < stage:
                raise ModelError(
                    f"node {node.name} ({node.op_type}) is in stage {stage} of the plan, and stage "
                    f"{min(wanted[name])} needs its output {name}: move it there, or to an earlier "
                    "stage."
                )
            for cut in range(stage, last):
                crossing[cut].append(name)
            if last > stage:
                placements[name] = crossings[name]
                _require_sendable(graph, node, value)
    _require_connected(crossing)
    return StageLayout(tuple(map(frozenset, computed)), crossing, placements)


def used_values(node: ir.Node) -> Iterator[ir.Value]:
    """All outer values that a node takes, with those that its branches and bodies capture."""
    yield from (value for value in node.inputs if value is not None)
    yield from captured_values(node)


def captured_values(node: ir.Node) -> Iterator[ir.Value]:
    """The outer values that the branches and bodies of a node take."""
    for graph in bodies(node):
        own = {id(value) for value in (*graph.inputs, *graph.initializers.values())}
        inner = list(graph.all_nodes())
        for one in inner:
            own |= {id(value) for value in one.outputs}
            for body in bodies(one):
                own |= {id(value) for value in (*body.inputs, *body.initializers.values())}
        taken = [value for one in inner for value in one.inputs if value is not None]
        ends = [value for one in inner for body in bodies(one) for value in body.outputs]
        yield from (v for v in (*taken, *ends, *graph.outputs) if id(v) not in own)


def bodies(node: ir.Node) -> Iterator[ir.Graph]:
    """The branches and bodies of a node."""
    for one in node.attributes.values():
        if one.type == ir.AttributeType.GRAPH:
            yield one.as_graph()
        elif one.type == ir.AttributeType.GRAPHS:
            yield from one.as_graphs()


def _wanted(graph: SourceGraph, plan: SlicePlan) -> tuple[list[set[str]], Mapping[str, set[int]]]:
    """The nodes that each stage computes, and the stages that need each value."""
    computed: list[set[str]] = [set() for _ in range(plan.stages)]
    wanted: defaultdict[str, set[int]] = defaultdict(set)
    for value in graph.model.graph.outputs:
        wanted[str(value.name)].add(plan.stages - 1)
    for node in reversed(graph.nodes):
        name = str(node.name)
        stages = {plan.stage(name)}
        if name in plan.everywhere:
            stages = set().union(*(wanted[str(value.name)] for value in node.outputs))
        for stage in stages:
            computed[stage].add(name)
        for value in used_values(node):
            wanted[str(value.name)] |= stages
    return computed, wanted


def _needs(graph: SourceGraph, plan: SlicePlan) -> Mapping[str, set[Placement]]:
    """The placements in which each value is needed, by any stage."""
    needs: defaultdict[str, set[Placement]] = defaultdict(set)
    for node in graph.nodes:
        for index, value in enumerate(node.inputs):
            if value is not None:
                needs[str(value.name)].add(plan.needed(str(node.name), index))
        for value in captured_values(node):
            needs[str(value.name)].add(WHOLE)
    for value in graph.model.graph.outputs:
        needs[str(value.name)].add(WHOLE)
    return needs


def crossing_placements(graph: SourceGraph, plan: SlicePlan) -> Mapping[str, Placement]:
    """How each value would go to another stage, wherever the stages are cut."""
    needs = _needs(graph, plan)
    return {
        name: _crossing_placement(produced, needs.get(name, set()))
        for name, produced in produced_placements(graph, plan).items()
    }


def _crossing_placement(produced: Placement, needs: set[Placement]) -> Placement:
    """How a value crosses: as it was computed, each rank its own part.

    Terms of a sum are as large as the sum: the sum crosses where it is needed, or what alone is.
    """
    if not isinstance(produced, Partial):
        return produced
    if WHOLE in needs:
        return WHOLE
    return next(iter(needs)) if len(needs) == 1 else produced


def _require_sendable(graph: SourceGraph, node: ir.Node, value: ir.Value) -> None:
    if not sendable(graph, value):
        raise ModelError(
            f"node {node.name} ({node.op_type}): its output {value.name} has to go to another "
            "stage, and its type or its number of dimensions is unknown, or no collective moves "
            "it: put the nodes that need it into the same stage."
        )


def sendable(graph: SourceGraph, value: ir.Value) -> bool:
    """Whether a value can go to another stage: a tensor of numbers whose axes are known."""
    return value.dtype in _SENT and str(value.name) in graph.dims


_SENT = {
    *(ir.DataType.FLOAT, ir.DataType.DOUBLE, ir.DataType.FLOAT16, ir.DataType.BFLOAT16),
    *(ir.DataType.INT8, ir.DataType.INT16, ir.DataType.INT32, ir.DataType.INT64),
    *(ir.DataType.UINT8, ir.DataType.UINT16, ir.DataType.UINT32, ir.DataType.UINT64),
    ir.DataType.BOOL,
}


def _require_connected(crossing: Sequence[Sequence[str]]) -> None:
    for stage, values in enumerate(crossing):
        if not values:
            raise ModelError(
                f"Nothing goes from stage {stage} of the plan to stage {stage + 1}: a stage that "
                "others need nothing of is no stage of a pipeline. Plan fewer stages."
            )
