"""Writing of annotations: the whole model with a plan as ONNX's device configurations."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path

import onnx_ir as ir

from ....comm.errors import UsageError
from ...source_graph.annotations import NOTE
from ...source_graph.source_graph import SourceGraph
from ..emission.write import write_whole
from ..placement.placements import WHOLE, Placement, Split
from ..placement.slice_plan import SlicePlan
from .sharded_axis import factors_of

CONFIGURATION = "rankmesh"


def write_annotated(graph: SourceGraph, plan: SlicePlan, path: str) -> None:
    """Write the whole model of a plan, annotated, with its larger weights beside it.

    UsageError where the files exist or cannot be written.
    """
    target = Path(path)
    files = target, target.with_suffix(".data")
    for one in files:
        if one.exists():
            raise UsageError(f"{one}: exists already. Name another file, or remove it.")
    try:
        write_whole(annotated(graph, plan), target)
    except BaseException as error:
        for one in files:
            one.unlink(missing_ok=True)
        if isinstance(error, OSError):
            raise UsageError(f"{path}: cannot be written: {error.strerror}.") from error
        raise


def annotated(graph: SourceGraph, plan: SlicePlan) -> ir.Model:
    """A copy of the model whose nodes say how the plan slices them.

    Every input and output of a node has a sharding spec, but for placements for which ONNX has no
    words. The metadata NOTE then have all placements of the node.
    """
    model = graph.model.clone()
    model.ir_version = 11
    devices = ir.ModelConfiguration(
        CONFIGURATION, plan.world_size, tuple(f"rank {rank}" for rank in range(plan.world_size))
    )
    model.device_configurations = (devices,)
    for node in model.graph:
        name = str(node.name)
        inputs = [plan.needed(name, index) for index in range(len(node.inputs))]
        outputs = [plan.produced(name, index) for index in range(len(node.outputs))]
        every = name in plan.everywhere
        stage = plan.stage(name) if plan.stages > 1 and not every else None
        first = (stage or 0) * plan.ranks
        members = tuple(range(plan.world_size if every else plan.ranks))
        ranks = tuple(first + one for one in members)
        specs = (*_specs(node.inputs, inputs, ranks), *_specs(node.outputs, outputs, ranks))
        if any(_unsaid(one) for one in (*inputs, *outputs)):
            texts = {"inputs": [*map(str, inputs)], "outputs": [*map(str, outputs)]}
            node.metadata_props[NOTE] = json.dumps(texts)
        node.device_configurations = (ir.NodeDeviceConfiguration(devices, specs, stage),)
    return model


def _specs(
    values: Sequence[ir.Value | None], placements: Sequence[Placement], ranks: tuple[int, ...]
) -> Iterator[ir.ShardingSpec]:
    for value, placement in zip(values, placements, strict=True):
        if value is None or not value.name or _unsaid(placement):
            continue
        dims: tuple[ir.ShardedDim, ...] = ()
        if isinstance(placement, Split):
            factors = factors_of(placement) or ()
            parts = tuple(ir.SimpleShardedDim(size or 0, shards) for size, shards in factors)
            dims = (ir.ShardedDim(placement.axis, parts),)
        yield ir.ShardingSpec(value, ranks, (), dims)


def _unsaid(placement: Placement) -> bool:
    """Whether ONNX has no words for a placement: terms of sums, and uneven heads."""
    if isinstance(placement, Split):
        return factors_of(placement) is None
    return placement != WHOLE
