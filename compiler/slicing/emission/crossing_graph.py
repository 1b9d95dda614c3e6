"""Crossing graphs: models of what one stage sends to the next, so that a cut is proved alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import onnx_ir as ir

from ...source_graph.source_graph import SourceGraph
from ..placement.operator_node import Strategy
from ..placement.placements import Placement
from ..placement.slice_plan import SlicePlan


def crossing_graph(
    graph: SourceGraph,
    values: Sequence[ir.Value],
    sent: Mapping[str, Placement],
    arrive: Mapping[str, Placement],
    ranks: int,
) -> tuple[SourceGraph, SlicePlan]:
    """A model that passes values on, and a plan in which they cross from one stage to the next.

    The first stage of `ranks` ranks has a value in the placement `sent`, and the second gets it in
    the placement `arrive`. The model takes and returns whole values, in order.
    """
    inputs: list[ir.Value] = []
    outputs: list[ir.Value] = []
    nodes: list[ir.Node] = []
    strategies: dict[str, Strategy] = {}
    stage_of: dict[str, int] = {}
    dims = dict(graph.dims)
    for value in values:
        name = str(value.name)
        whole = ir.Value(name=f"{name}.whole", type=value.type, shape=_shape(value))
        pair = _passed_on(value, whole)
        for stage, placement in enumerate((sent[name], arrive[name])):
            strategies[str(pair[stage].name)] = Strategy((placement,), (placement,))
            stage_of[str(pair[stage].name)] = stage
        dims.update({f"{name}.whole": dims[name], f"{name}.arrived": dims[name]})
        inputs.append(whole)
        outputs += pair[1].outputs
        nodes += pair
    opsets = dict(graph.model.graph.opset_imports)
    made = ir.Graph(inputs, outputs, nodes=nodes, name="crossing", opset_imports=opsets)
    model = ir.Model(made, ir_version=graph.model.ir_version or 10)
    plan = SlicePlan(ranks, strategies, stages=2, stage_of=stage_of)
    return replace(graph, model=model, dims=dims), plan


def _passed_on(value: ir.Value, whole: ir.Value) -> tuple[ir.Node, ir.Node]:
    """Two nodes that pass a whole value on, one for each stage; between them it has its name."""
    name = str(value.name)
    leaves = ir.node("Identity", [whole], name=f"{name}.leaves")
    leaves.outputs[0].name, leaves.outputs[0].type = name, value.type
    arrives = ir.node("Identity", leaves.outputs, name=f"{name}.arrives")
    result = arrives.outputs[0]
    result.name, result.type, result.shape = f"{name}.arrived", value.type, _shape(value)
    return leaves, arrives


def _shape(value: ir.Value) -> ir.Shape | None:
    return None if value.shape is None else ir.Shape(list(value.shape))
