"""The cut of a loaded model: its collectives split it into the plan of one rank."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from onnx import NodeProto, TensorProto, ValueInfoProto

from ...comm.errors import ModelError
from ...comm.text import counted
from ...compiler.mindir.graph import MOST_DIMENSIONS
from ...compiler.model_file.loaded_model import LoadedModel
from ...compiler.onnx_graph.collective_nodes import DOMAIN, NO_GROUPS, SLICING, Groups, node_label
from ...compiler.onnx_graph.external import external_array
from ...compiler.onnx_graph.onnx_values import tensor_type
from ...compiler.onnx_graph.optional_inputs import optional_inputs
from .graph_cutter import CutContext, GraphCutter
from .plan import CollectiveStep, Plan, Signature, StateVariable, Step

_MOST_BYTES = 1 << 47
"""The largest address space of a process."""


def make_plan(loaded: LoadedModel, rank: int, world_size: int, groups: Groups = NO_GROUPS) -> Plan:
    """Cut a model for one rank of a job with `world_size` ranks; this uses up the model's graph.

    `groups` has the ranks of groups that the file only names. Raises ModelError, which names the
    node.
    """
    try:
        return _plan(CutContext(loaded, rank, world_size, groups))
    except UnicodeDecodeError as error:  # protobuf decodes names on access
        raise ModelError(
            f"{loaded.path}: corrupt: a name is not UTF-8 text ({error}). Export it again."
        ) from error


def _plan(cut: CutContext) -> Plan:
    graph = cut.model.graph
    optional = optional_inputs(cut.model)
    states = _states(cut)
    inputs = [
        info.name
        for info in graph.input
        if info.name not in cut.initializers and info.name not in states
    ]
    defaults = {name: _default(cut, name) for name in optional if name not in states}
    inputs += defaults
    cutter = GraphCutter(cut, graph)
    steps, values = cutter.steps([state.result for state in states.values()])
    results, outputs = values[: len(states)], values[len(states) :]
    kept = [
        StateVariable(state.value, result, state.initial)
        for state, result in zip(states.values(), results, strict=True)
    ]
    used = {name for step in steps for name in step.inputs} | set(values)
    constants = {name: tensor for name, tensor in cut.initializers.items() if name in used}
    _require_all_made(cut, {*inputs, *states}, steps, values)
    for state in kept:
        _check_state(cut, state)
    _require_possible(cut)
    return Plan(
        cut.path,
        cut.loaded.folder,
        tuple(
            Signature(name, name, cut.type_of(name), default=defaults.get(name)) for name in inputs
        ),
        _outputs(cut, steps, outputs),
        tuple(steps),
        cut.types,
        constants,
        tuple(kept),
        cut.loaded.unused,
        slicing=_slicing(cut),
        placed=_is_placed(cut),
    )


def _default(cut: CutContext, name: str) -> TensorProto:
    """Take the default of an optional input out of the initializers, with its elements."""
    tensor = cut.initializers.pop(name)
    info = next(one for one in cut.model.graph.input if one.name == name)
    declared = tensor_type(info)
    if declared:
        cut.types[name] = declared
    if tensor.data_location == TensorProto.EXTERNAL:
        array = external_array(tensor, cut.loaded.folder, cut.loaded.memory)
        return TensorProto(
            name=name, data_type=tensor.data_type, dims=tensor.dims, raw_data=array.tobytes()
        )
    return tensor


def _is_placed(cut: CutContext) -> bool:
    nodes = [node for node in cut.model.graph.node if node.domain == DOMAIN]
    return bool(_slicing(cut)) and all(
        any(attribute.name == "position" for attribute in node.attribute)
        for node in nodes
        if node.op_type not in ("Send", "Receive")
    )


def _slicing(cut: CutContext) -> str:
    found = (one.value for one in cut.model.metadata_props if one.key == SLICING)
    return next(found, "")


def _states(cut: CutContext) -> dict[str, StateVariable]:
    """Take the Assign nodes and their initializers out of the graph, as states by name."""
    graph, found = cut.model.graph, {}
    for node in [node for node in graph.node if (node.domain, node.op_type) == (DOMAIN, "Assign")]:
        graph.node.remove(node)
        name = _assigned(cut, node)
        if name in found:
            raise ModelError(
                f"{node_label(node, cut.path)}: assigns to '{name}', and another node does so too."
            )
        if name not in cut.initializers:
            raise ModelError(
                f"{node_label(node, cut.path)}: assigns to '{name}', which is not an initializer."
            )
        found[name] = StateVariable(name, node.input[0], cut.initializers[name])
    for name in found:
        del cut.initializers[name]
    return found


def _assigned(cut: CutContext, node: NodeProto) -> str:
    attributes = {attribute.name: attribute.s.decode() for attribute in node.attribute}
    if attributes.keys() != {"state"} or len(node.input) != 1 or node.output:
        raise ModelError(
            f"{node_label(node, cut.path)}: has {counted(len(node.input), 'input')}, "
            f"{counted(len(node.output), 'output')} and the attributes {sorted(attributes)}, "
            "expected 1, 0 and 'state', the name of an initializer."
        )
    return attributes["state"]


def _check_state(cut: CutContext, state: StateVariable) -> None:
    old, new = cut.type_of(state.value), cut.type_of(state.result)
    if old.dtype != new.dtype:
        raise ModelError(
            f"{cut.path}: the initializer '{state.value}' is {old.dtype}, and a node assigns "
            f"{new.dtype} to it."
        )


def _require_all_made(
    cut: CutContext, given: set[str], steps: Sequence[Step], outputs: Sequence[str]
) -> None:
    known = given | cut.initializers.keys()
    for taken, made in (*((step.inputs, step.outputs) for step in steps), (outputs, ())):
        unknown = [name for name in taken if name not in known]
        if unknown:
            raise ModelError(
                f"{cut.path}: the value '{unknown[0]}' is used before a node makes it: "
                f"the file is corrupt or not sorted."
            )
        known.update(made)


def _require_possible(cut: CutContext) -> None:
    """Refuse shapes that no array can have."""
    for name, kind in cut.types.items():
        shape = kind.shape or ()
        if len(shape) > MOST_DIMENSIONS:
            raise ModelError(
                f"{cut.path}: the value '{name}' has {len(shape)} dimensions, expected at most "
                f"{MOST_DIMENSIONS}. Export the model again."
            )
        if prod(max(dim, 1) for dim in shape) * kind.dtype.itemsize > _MOST_BYTES:
            raise ModelError(
                f"{cut.path}: the value '{name}' is {kind.dtype.name}{list(shape)}, which is more "
                "than any process can address. Export the model again."
            )


def _outputs(
    cut: CutContext, steps: Sequence[Step], values: Sequence[str]
) -> tuple[Signature, ...]:
    sends = any(isinstance(s, CollectiveStep) and s.call.sends_to for s in steps)
    outputs = zip(cut.model.graph.output, values, strict=True)
    return tuple(_output(cut, info, value, sends) for info, value in outputs)


def _output(cut: CutContext, info: ValueInfoProto, value: str, sends: bool) -> Signature:
    """The signature of an output.

    A constant in a shard with a Send has no result: it stands for a value of a later stage of the
    pipeline, whose type the file states.
    """
    placeholder = sends and value in cut.initializers
    stated = tensor_type(info) if placeholder else None
    has_result = value not in cut.meaningless and not placeholder
    return Signature(info.name, value, stated or cut.type_of(value), has_result)
