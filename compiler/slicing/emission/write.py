"""Shards on disk: the model of each rank, with its weights streamed beside it."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import onnx
import onnx_ir as ir

from ...onnx_graph.collective_nodes import SLICING
from ...onnx_graph.tensorrt_collectives import to_tensorrt
from ...source_graph.source_graph import DEFAULTS, SourceGraph
from ..placement.placements import WHOLE, Placement
from ..placement.slice_plan import SlicePlan
from .localise import LocalModel, localise
from .weight_map import WeightMap
from .weight_part import WeightPart

COLLECTIVES = ("rankmesh", "tensorrt")
"""The kinds of nodes that collectives are written as."""

_LEAST = 4096
"""Bytes of the smallest initializers that lie outside the graph's file. Smaller ones, such as
shapes, are needed in memory."""

_LEAST_WEIGHT = 64
"""The same of weights in floating point, which updates may replace when they lie outside."""

_PAGE, _LINE = 4096, 64

Progress = Callable[[str, int, int], None]
"""Told of progress: what is done, bytes done, bytes in all."""

Stored = Mapping[tuple[str, Placement], ir.TensorProtocol]
"""The parts of weights as a rank's files hold them."""


@dataclass(frozen=True, slots=True)
class Shard:
    """A shard that was written: the file of its graph, its size with weights, and the weights."""

    path: Path
    nbytes: int
    stored: Stored
    collectives: Mapping[str, int]
    weights: WeightMap


def write_shard(
    graph: SourceGraph,
    plan: SlicePlan,
    rank: int,
    stem: Path,
    fingerprint: str,
    progress: Progress | None = None,
    collectives: str = COLLECTIVES[0],
) -> Shard:
    """Write the shard of `rank` as `STEM_rankR.onnx` and `.data`; OSError where it cannot be.

    ModelError where TensorRT's nodes lack a collective.
    """
    local = localise(graph, plan, rank)
    local.model.metadata_props[SLICING] = fingerprint
    path = stem.with_name(f"{stem.name}_rank{rank}.onnx")
    data = path.with_suffix(".data")
    stored = _write_weights(local, data, progress or _silent)
    model = ir.to_proto(local.model)
    _add_defaults(model.graph, graph.model.meta.get(DEFAULTS, {}))
    if collectives == "tensorrt":
        to_tensorrt(model, rank, plan.world_size, path.name)
    _save(model, path)
    size = path.stat().st_size + (data.stat().st_size if data.exists() else 0)
    return Shard(path, size, stored, _counted(local.model), WeightMap(local))


def _add_defaults(graph: onnx.GraphProto, defaults: Mapping[str, ir.TensorProtocol]) -> None:
    """Have the inputs of a shard that are optional in the model be optional in it too."""
    for info in graph.input:
        if info.name in defaults:
            tensor = onnx.numpy_helper.from_array(defaults[info.name].numpy(), info.name)
            graph.initializer.append(tensor)


def write_whole(model: ir.Model, path: Path) -> None:
    """Write a whole model, and its weights as `.data` beside it; OSError where it cannot be."""
    _write_weights(LocalModel(model, {}), path.with_suffix(".data"), _silent)
    _save(ir.to_proto(model), path)


def _save(model: onnx.ModelProto, path: Path) -> None:
    with open(path, "wb") as file:
        file.write(model.SerializeToString(deterministic=True))
        file.flush()
        os.fsync(file.fileno())


def _silent(what: str, done: int, of: int) -> None:
    """Show no progress."""


def _counted(model: ir.Model) -> dict[str, int]:
    found: dict[str, int] = {}
    for node in model.graph:
        if node.domain == "rankmesh":
            found[node.op_type] = found.get(node.op_type, 0) + 1
    return found


def _write_weights(local: LocalModel, path: Path, progress: Progress) -> Stored:
    """Write all larger initializers into one file, and let the model refer to them."""
    values = local.model.graph.initializers
    parts = {name: _part(local, name, value) for name, value in values.items()}
    large = {name: part for name, part in parts.items() if _lies_outside(local, name, part)}
    stored = {
        (part.weight, part.placement): part.lazy
        for name, part in parts.items()
        if name in local.weights and name not in large
    }
    _take_in(values, {name: part for name, part in parts.items() if name not in large})
    if not large:
        return stored
    total, at = sum(part.nbytes for part in large.values()), 0
    with open(path, "wb") as file:
        for name, part in large.items():
            alignment = _PAGE if part.nbytes >= _PAGE else _LINE
            at = -(-at // alignment) * alignment
            for offset, piece in part.pieces():
                file.seek(at + offset)
                file.write(piece)
            tensor = ir.ExternalTensor(
                path.name,
                at,
                part.nbytes,
                part.tensor.dtype,
                shape=ir.Shape(part.shape),
                name=name,
                base_dir=str(path.parent),
            )
            values[name].const_value = tensor
            if name in local.weights:
                stored[part.weight, part.placement] = tensor
            at += part.nbytes
            progress(path.stem, min(at, total), total)
        file.truncate(at)
        file.flush()
        os.fsync(file.fileno())
    return stored


def _lies_outside(local: LocalModel, name: str, part: WeightPart) -> bool:
    is_weight = name in local.weights and part.shape and part.tensor.dtype.is_floating_point()
    return part.nbytes >= (_LEAST_WEIGHT if is_weight else _LEAST)


def _take_in(values: Mapping[str, ir.Value], parts: Mapping[str, WeightPart]) -> None:
    """Read small weights from the files of the source: a shard refers to no file but its own."""
    for name, part in parts.items():
        if isinstance(values[name].const_value, ir.ExternalTensor):
            array = part.lazy.numpy().copy()
            values[name].const_value = ir.tensor(array, dtype=part.tensor.dtype, name=name)


def _part(local: LocalModel, name: str, value: ir.Value) -> WeightPart:
    """The data to write for an initializer; constants of the rank are written whole."""
    found = local.weights.get(name)
    if found is not None:
        return found
    assert value.const_value is not None
    return WeightPart(name, value.const_value, WHOLE, 0)
