"""Annotations: reads from a model where its nodes are to be computed, by ONNX's sharding specs.

They are taken off the model when it is read, and kept by the position of inputs and outputs, as
values change their names later.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import onnx_ir as ir

from ...comm.errors import ModelError

NOTE = "rankmesh.placements"
"""The metadata of a node with the placements for which ONNX has no words."""

_META = "rankmesh.annotations"


@dataclass(frozen=True, slots=True)
class OperandShards:
    """The sharding spec of one operand: devices in the order of shards, and the divided axes.

    An axis has the sizes and shard numbers of its factors; a size is None where it is open.
    `groups` says whether a shard lies on several devices.
    """

    index: int
    is_output: bool
    devices: tuple[int, ...]
    groups: bool
    axes: tuple[tuple[int, tuple[tuple[int | None, int], ...]], ...]


@dataclass(frozen=True, slots=True)
class NodeAnnotation:
    """A node's annotation for one configuration of so many devices.

    `note` is the text of NOTE; `strays` counts specs of tensors that the node does not have.
    """

    configuration: str
    devices: int
    operands: tuple[OperandShards, ...]
    stage: int | None
    note: str
    strays: int = 0


Annotations = Mapping[str, Sequence[NodeAnnotation]]


def take_annotations(model: ir.Model, path: str) -> None:
    """Take the annotations of the main graph's nodes off a model, until annotations_of.

    ModelError, which names `path`, where other nodes have some: bodies are computed whole.
    """
    for node in model.graph.all_nodes():
        note = node.metadata_props.pop(NOTE, "")
        found = tuple(
            _annotation(node, one, note)
            for one in node.device_configurations
            if one.configuration is not None
        )
        if found and (node.graph is not model.graph or node.op_identifier() in model.functions):
            raise ModelError(
                f"{path}: node {node.name} ({node.op_type}): is annotated, and is in a body or "
                "calls a function: Rankmesh obeys annotations of operators of the main graph only."
            )
        if found:
            node.meta[_META] = found
        node.device_configurations = ()
    model.device_configurations = ()


def annotations_of(model: ir.Model) -> Annotations:
    """The annotations that were taken off a model, by the names that its nodes have now."""
    return {str(node.name): node.meta[_META] for node in model.graph if _META in node.meta}


def _annotation(node: ir.Node, one: ir.NodeDeviceConfiguration, note: str) -> NodeAnnotation:
    configuration = one.configuration
    assert configuration is not None
    operands, strays = [], 0
    for spec in one.sharding_specs:
        found = list(_operands(node, spec))
        strays += not found
        operands += found
    where = configuration.name, configuration.num_devices
    return NodeAnnotation(*where, tuple(operands), one.pipeline_stage, note, strays)


def _operands(node: ir.Node, spec: ir.ShardingSpec) -> Iterator[OperandShards]:
    axes = tuple(
        (
            dim.axis,
            tuple(
                (part.dim if isinstance(part.dim, int) else None, part.num_shards)
                for part in dim.simple_shardings
            ),
        )
        for dim in spec.sharded_dims
    )
    for is_output, values in ((False, node.inputs), (True, node.outputs)):
        for index, value in enumerate(values):
            if value is not None and value is spec.value:
                groups = bool(spec.index_to_device_group_map)
                yield OperandShards(index, is_output, spec.device, groups, axes)
