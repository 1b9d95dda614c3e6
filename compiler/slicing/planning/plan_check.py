"""The check of a plan against its model: a plan that was edited is obeyed only if it is sound."""

from __future__ import annotations

from collections.abc import Mapping

import onnx_ir as ir

from ....comm.errors import ModelError, UsageError
from ....comm.text import counted
from ...source_graph.dims import fixed
from ...source_graph.source_graph import SourceGraph, operator
from ..emission.conversions import convertible
from ..emission.stage_layout import stage_layout
from ..placement.operator_node import NodeOperand, OperatorNode, Strategy, operator_nodes
from ..placement.placements import WHOLE, Placement, Replicated, Split, Windows
from ..placement.slice_plan import SlicePlan
from ..rules import RULES
from .needed_conversions import needed_conversions


def check_plan(graph: SourceGraph, plan: SlicePlan, path: str) -> None:
    """Raise UsageError, which begins with `path`, unless the plan fits the model.

    Every strategy must be one that the node's rule gives, and every conversion must be listed.
    """
    nodes = operator_nodes(graph, plan.ranks)
    for name, strategy in plan.strategies.items():
        if name not in nodes:
            raise UsageError(f"{path}: node {name}: the model has no node of this name.")
        reason = _fault(nodes[name], strategy)
        if reason:
            kind = operator(nodes[name].node)
            raise UsageError(f"{path}: node {name} ({kind}): {reason}.")
    _check_stages(graph, plan, path, nodes)
    listed, used = set(plan.conversions), set()
    for one, place in needed_conversions(graph, plan):
        change = f"{one.value} is {one.before}, and {place} needs {one.after}"
        if not convertible(one.before, one.after):
            raise UsageError(f"{path}: {change}: there is no such conversion.")
        if one not in listed:
            raise UsageError(f"{path}: {change}: add this conversion to `conversions`.")
        used.add(one)
    for one in plan.conversions:
        if one not in used:
            raise UsageError(
                f"{path}: conversions: {one.value} from {one.before} to {one.after} is listed, and "
                "no node needs it."
            )


def _check_stages(
    graph: SourceGraph, plan: SlicePlan, path: str, nodes: Mapping[str, OperatorNode]
) -> None:
    for name in (*plan.stage_of, *plan.everywhere):
        if name not in nodes:
            raise UsageError(f"{path}: node {name}: the model has no node of this name.")
    try:
        stage_layout(graph, plan)
    except ModelError as error:
        raise UsageError(f"{path}: {error}") from error


def _fault(node: OperatorNode, strategy: Strategy) -> str:
    """The fault of a node's strategy; "" for a sound one."""
    pairs = (
        ("input", node.node.inputs, node.inputs, strategy.inputs),
        ("output", node.node.outputs, node.outputs, strategy.outputs),
    )
    for what, values, all_dims, placements in pairs:
        if len(values) != len(placements):
            return f"has {counted(len(values), what)}, and the plan gives {len(placements)}"
        for index, (value, dims, one) in enumerate(zip(values, all_dims, placements, strict=True)):
            wrong = _wrong_split(value, dims, one)
            if wrong:
                return f"{what} {index}: {wrong}"
    return "" if strategy == node.whole else _refused(node, strategy)


def _wrong_split(value: ir.Value | None, dims: object, one: Placement) -> str:
    """Why a value cannot have a placement, by its dimensions alone."""
    if value is None:
        return "" if one == WHOLE else f"is missing, and the plan gives it {one}"
    if isinstance(one, Replicated):
        return ""
    if not isinstance(dims, tuple):
        return f"'{value.name}' has an unknown shape, so it must be replicated"
    if not isinstance(one, Split | Windows):
        return ""
    if one.axis >= len(dims):
        axes = counted(len(dims), "axis", "axes")
        return f"'{value.name}' has {axes}, and the plan cuts axis {one.axis}"
    length = fixed(dims[one.axis])
    if length is None:
        return f"axis {one.axis} of '{value.name}' is an open dimension, which cannot be split"
    found = max(one.stops) if isinstance(one, Windows) else one.length
    if found > length if isinstance(one, Windows) else found != length:
        return f"axis {one.axis} of '{value.name}' has {length} elements, and {one} has {found}"
    return ""


def _refused(node: OperatorNode, strategy: Strategy) -> str:
    """Why the rule of a node does not give a strategy; "" where it does."""
    rule = RULES.get(operator(node.node))
    if rule is None:
        return "this operator has no rule, so it must be computed whole on every rank"
    near: dict[Strategy, None] = {}
    for is_output, placements in ((False, strategy.inputs), (True, strategy.outputs)):
        for index, one in enumerate(placements):
            if one != WHOLE:
                for found in rule.strategies_with(node, NodeOperand(index, is_output), one):
                    near[found] = None
    if strategy in near:
        return ""
    if not near:
        return f"the rule of the operator does not allow {_shown(strategy)}"
    best = max(near, key=lambda one: _alike(one, strategy))
    return f"the rule does not allow {_shown(strategy)}; it allows {_shown(best)}"


def _alike(one: Strategy, other: Strategy) -> int:
    return sum(
        a == b
        for a, b in zip((*one.inputs, *one.outputs), (*other.inputs, *other.outputs), strict=True)
    )


def _shown(strategy: Strategy) -> str:
    ins, outs = (", ".join(map(str, side)) for side in (strategy.inputs, strategy.outputs))
    return f"({ins}) -> ({outs})"


def check_operators(graph: SourceGraph, given: Mapping[str, str], path: str) -> None:
    """Raise UsageError where a plan file has another operator for a node than the model."""
    known = operators_of(graph)
    for name, kind in given.items():
        if known.get(name, kind) != kind:
            raise UsageError(
                f"{path}: node {name}: its operator is {known[name]}, and the plan says {kind}. "
                "Correct the plan's operator, or make a plan of this model."
            )


def operators_of(graph: SourceGraph) -> Mapping[str, str]:
    """The operator of each node, by the node's name."""
    return {str(node.name): operator(node) for node in graph.nodes}
