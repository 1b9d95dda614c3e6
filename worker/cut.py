"""Cuts a pivot at its collectives into the plan of one rank."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from onnx import NodeProto, ValueInfoProto

from ..comm.counted import counted
from ..comm.errors import ModelError
from .collective_nodes import DOMAIN, NO_GROUPS, Groups, node_label
from .graph_cutter import Cut, GraphCutter
from .mindir.graph import MOST_DIMENSIONS
from .pivot import Pivot
from .plan import Exchange, Plan, Signature, State, Step

_ASSIGN = "Assign"
_MOST_BYTES = 1 << 47
"""What a process can address."""


def make_plan(pivot: Pivot, rank: int, world_size: int, groups: Groups = NO_GROUPS) -> Plan:
    """Cut a model for one rank; the pivot's own model is used up. `groups` are ranks that the file need not say.

    Raises ModelError with the node where that cannot be done.
    """
    try:
        return _plan(Cut(pivot, rank, world_size, groups))
    except UnicodeDecodeError as error:  # protobuf decodes names only when they are looked at
        raise ModelError(f"{pivot.path}: corrupt: a name is no text ({error}). Export it again.") from error


def _plan(cut: Cut) -> Plan:
    graph = cut.model.graph
    states = _states(cut)
    inputs = [info.name for info in graph.input if info.name not in cut.initializers and info.name not in states]
    cutter = GraphCutter(cut, graph)
    steps, values = cutter.steps([state.result for state in states.values()])
    results, outputs = values[:len(states)], values[len(states):]
    kept = [State(state.value, result, state.initial) for state, result in zip(states.values(), results, strict=True)]
    used = {name for step in steps for name in step.inputs} | set(values)
    constants = {name: tensor for name, tensor in cut.initializers.items() if name in used}
    _require_all_made(cut, {*inputs, *states}, steps, values)
    for state in kept:
        _check_state(cut, state)
    _require_possible(cut)
    sends = any(isinstance(s, Exchange) and s.call.sends_to for s in steps)
    return Plan(
        cut.path, cut.pivot.folder, tuple(Signature(name, name, cut.type_of(name)) for name in inputs),
        tuple(_output(cut, info, value, sends) for info, value in zip(graph.output, outputs, strict=True)),
        tuple(steps), cut.types, constants, tuple(kept), cut.pivot.unused)


def _states(cut: Cut) -> dict[str, State]:
    """The states, by name; their nodes and initializers are taken out of the graph."""
    graph, found = cut.model.graph, {}
    for node in [node for node in graph.node if (node.domain, node.op_type) == (DOMAIN, _ASSIGN)]:
        graph.node.remove(node)
        name = _assigned(cut, node)
        if name in found:
            raise ModelError(f"{node_label(node, cut.path)}: assigns to '{name}', and another node does so too.")
        if name not in cut.initializers:
            raise ModelError(f"{node_label(node, cut.path)}: assigns to '{name}', which is no initializer.")
        found[name] = State(name, node.input[0], cut.initializers[name])
    for name in found:
        del cut.initializers[name]
    return found


def _assigned(cut: Cut, node: NodeProto) -> str:
    attributes = {attribute.name: attribute.s.decode() for attribute in node.attribute}
    if attributes.keys() != {"state"} or len(node.input) != 1 or node.output:
        raise ModelError(f"{node_label(node, cut.path)}: has {counted(len(node.input), 'input')}, "
                         f"{counted(len(node.output), 'output')} and the attributes {sorted(attributes)}, expected 1, "
                         f"0 and 'state', the name of an initializer.")
    return attributes["state"]


def _check_state(cut: Cut, state: State) -> None:
    old, new = cut.type_of(state.value), cut.type_of(state.result)
    if old.dtype != new.dtype:
        raise ModelError(f"{cut.path}: the initializer '{state.value}' is {old.dtype}, and a node assigns {new.dtype} "
                         f"to it.")


def _require_all_made(cut: Cut, given: set[str], steps: Sequence[Step], outputs: Sequence[str]) -> None:
    known = given | cut.initializers.keys()
    for taken, made in (*((step.inputs, step.outputs) for step in steps), (outputs, ())):
        unknown = [name for name in taken if name not in known]
        if unknown:
            raise ModelError(f"{cut.path}: the value '{unknown[0]}' is used, but nothing makes it before: "
                             f"the file is corrupt or not sorted.")
        known.update(made)


def _require_possible(cut: Cut) -> None:
    """Refuse shapes that no array can have."""
    for name, kind in cut.types.items():
        shape = kind.shape or ()
        if len(shape) > MOST_DIMENSIONS:
            raise ModelError(f"{cut.path}: the value '{name}' has {len(shape)} dimensions, expected at most "
                             f"{MOST_DIMENSIONS}. Export the model again.")
        if prod(max(dim, 1) for dim in shape) * kind.dtype.itemsize > _MOST_BYTES:
            raise ModelError(f"{cut.path}: the value '{name}' is {kind.dtype.name}{list(shape)}, which is more than "
                             f"any process can address. Export the model again.")


def _output(cut: Cut, info: ValueInfoProto, value: str, sends: bool) -> Signature:
    """An output; a constant beside a Send stands for "the next stage has it" (MindSpore's pipelines)."""
    has_result = value not in cut.meaningless and not (sends and value in cut.initializers)
    return Signature(info.name, value, cut.type_of(value), has_result)
