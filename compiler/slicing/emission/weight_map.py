"""Weight map: lists which slice of which weight each initializer of a shard is, for updates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import onnx_ir as ir

from ....comm.serving.weight_slices import ORDER, WeightSlice, WeightSlices
from ..placement.placements import Split, Windows
from .localise import LocalModel
from .weight_part import WeightPart

_UPDATABLE = 1024
"""Bytes from which a rank takes an initializer inside the graph's file for a weight."""


class WeightMap:
    """The slices that the initializers of one shard are, and the weights that must stay."""

    def __init__(self, local: LocalModel) -> None:
        """`local` is a shard whose larger weights were written outside the graph."""
        self.slices: dict[str, WeightSlice] = {}
        self.fixed: dict[str, str] = {}
        for name, part in local.weights.items():
            value = local.model.graph.initializers.get(name)
            reason = _reason(part, value)
            if not reason:
                self.slices[name] = slice_of(part)
            elif part.tensor.dtype.is_floating_point() or part.nbytes >= _UPDATABLE:
                self.fixed[part.weight] = reason


def joined(stem: str, maps: Sequence[WeightMap]) -> WeightSlices:
    """The maps of all ranks as one."""
    fixed: Mapping[str, str] = {name: why for one in maps for name, why in one.fixed.items()}
    return WeightSlices(f"{stem}_rank{{rank}}.onnx", tuple(one.slices for one in maps), dict(fixed))


def _reason(part: WeightPart, value: ir.Value | None) -> str:
    """Why a weight cannot be updated; "" where it can."""
    if value is None or not (value.uses() or value.is_graph_output()):
        return "slicing has computed constants of the shards from it; slice the changed model"
    if part.tensor.dtype == ir.DataType.STRING or part.tensor.dtype.bitwidth % 8:
        return "it has texts or packed numbers, which stay as they are"
    outside = isinstance(value.const_value, ir.ExternalTensor)
    if not outside and part.nbytes < _UPDATABLE:
        return "it is so small that the shards have it as a constant; slice the changed model"
    return ""


def slice_of(part: WeightPart) -> WeightSlice:
    """The part as a slice that updates can take of other arrays."""
    shape = tuple(int(size) for size in part.tensor.shape.numpy())
    order: tuple[int, ...] = part.tensor.meta.get(ORDER, ())
    if order:  # the shape before the transposition
        shape = tuple(shape[order.index(axis)] for axis in range(len(shape)))
    if isinstance(part.placement, Split | Windows):
        cuts = tuple(part.placement.intervals(part.rank))
        return WeightSlice(part.weight, shape, part.placement.axis, cuts, order=order)
    return WeightSlice(part.weight, shape, zero=part.is_zero, order=order)
