"""Scatter rules: split operators that read or write elements at several indices at once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
import onnx_ir as ir

from ...source_graph.dims import fixed
from ..placement.factors import Axis, Factor, Factors
from ..placement.local_node import LocalNode
from ..placement.operator_node import OperatorNode
from ..placement.placements import Split
from .registry import factors_of


def _equal_axes(node: OperatorNode, inputs: Mapping[int, int]) -> Factor | None:
    """A factor of these axes of inputs, by position, and the first one's of the output.

    None where they are not equally long.
    """
    sizes = {(node.inputs[index] or ())[axis] for index, axis in inputs.items()}
    if len(sizes) > 1:
        return None
    axis = next(iter(inputs.values()))
    return Factor({index: Axis(own) for index, own in inputs.items()}, {0: Axis(axis)})


@factors_of("GatherElements")
def gather_elements(node: OperatorNode) -> Factors:
    """Other axes than the picked one, where data and indices are equally long."""
    count, picked = len(node.inputs[0] or ()), node.axis_of()
    found = [_equal_axes(node, {0: axis, 1: axis}) for axis in range(count) if axis != picked]
    return Factors([one for one in found if one is not None], [(0,)], ("sum", "max"))


@factors_of("ScatterElements")
def scatter_elements(node: OperatorNode) -> Factors:
    """Other axes than the picked one; data and updates may both be terms."""
    count, picked = len(node.inputs[0] or ()), node.axis_of()
    found = [
        _equal_axes(node, {0: axis, 1: axis, 2: axis}) for axis in range(count) if axis != picked
    ]
    return Factors([one for one in found if one is not None], _linear_writes(node))


def _linear_writes(node: OperatorNode) -> list[tuple[int, ...]]:
    return [(0, 2)] if node.text_of("reduction", "none") in ("none", "add") else []


@factors_of("GatherND")
def gather_nd(node: OperatorNode) -> Factors:
    """Batch axes, axes of the indices, and axes of the data behind the picked ones."""
    data, indices = node.inputs[0] or (), node.inputs[1] or ()
    batch = node.int_of("batch_dims")
    picked = fixed(indices[-1])
    if picked is None:
        return Factors(())
    found = [Factor({0: Axis(axis), 1: Axis(axis)}, {0: Axis(axis)}) for axis in range(batch)]
    for axis in range(batch, len(indices) - 1):
        found.append(Factor({1: Axis(axis)}, {0: Axis(axis)}))
    for axis in range(batch + picked, len(data)):
        place = len(indices) - 1 + axis - batch - picked
        found.append(Factor({0: Axis(axis)}, {0: Axis(place)}))
    return Factors(found, [(0,)], ("sum", "max"))


def _own_places(local: LocalNode) -> None:
    """Of indices that count through a split axis, take this rank's, counted from its first."""
    data = local.strategy.inputs[0]
    picked = fixed((local.source.inputs[1] or ())[-1]) or 0
    if not isinstance(data, Split) or data.axis >= picked:
        return

    def numbers(*given: int) -> ir.Value:
        return local.constant(np.array(given, np.int64))

    parts, done = [], 0
    for start, stop in data.intervals(local.rank):
        ends = [numbers(one) for one in (start, stop, data.axis)]
        rows = local.before("Slice", [local.input(1), *ends])
        shift = [start - done if axis == data.axis else 0 for axis in range(picked)]
        parts.append(local.before("Sub", [rows, numbers(*shift)]))
        done += stop - start
    own = parts[0] if len(parts) == 1 else local.before("Concat", parts, {"axis": data.axis})
    local.node.replace_input_with(1, own)


@factors_of("ScatterND", localise=_own_places)
def scatter_nd(node: OperatorNode) -> Factors:
    """Axes of the data behind the picked ones, and picked ones that the indices count through.

    Data and updates may both be terms.
    """
    data, indices = node.inputs[0] or (), node.inputs[1] or ()
    picked = fixed(indices[-1])
    if picked is None:
        return Factors(())
    found = [Factor({0: Axis(one), 2: Axis(one)}, {0: Axis(one)}) for one in _counted(node)]
    for axis in range(picked, len(data)):
        place = len(indices) - 1 + axis - picked
        found.append(Factor({0: Axis(axis), 2: Axis(place)}, {0: Axis(axis)}))
    return Factors(found, _linear_writes(node))


def _counted(node: OperatorNode) -> Iterator[int]:
    """The axes whose indices are 0, 1, 2, ... along the same axis of the updates.

    An assignment to a part of the last axis, such as `x[..., :8] = y`, is exported so.
    """
    indices, data = node.constants.get(1), node.inputs[0] or ()
    if indices is None:
        return
    for axis in range(min(indices.shape[-1], indices.ndim - 1)):
        length = indices.shape[axis]
        count = np.arange(length).reshape(-1, *[1] * (indices.ndim - 2 - axis))
        if fixed(data[axis]) == length and (indices[..., axis] == count).all():
            yield axis


@factors_of("TensorScatter")
def tensor_scatter(node: OperatorNode) -> Factors:
    """All axes but the one that is written along; the indices are one for each batch."""
    count = len(node.inputs[0] or ())
    written = node.axis_of(-2)
    found = []
    for axis in range(count):
        if axis != written:
            inputs = {0: Axis(axis), 1: Axis(axis)}
            if axis == 0 and node.has_input(2):
                inputs[2] = Axis(0)
            found.append(Factor(inputs, {0: Axis(axis)}))
    return Factors(found, [(0, 1)])


@factors_of("ReverseSequence")
def reverse_sequence(node: OperatorNode) -> Factors:
    """All axes but the reversed one; the lengths are one for each batch."""
    count = len(node.inputs[0] or ())
    batch = node.int_of("batch_axis", 1)
    found = []
    for axis in range(count):
        if axis != node.int_of("time_axis"):
            lengths = {1: Axis(0)} if axis == batch else {}
            found.append(Factor({0: Axis(axis), **lengths}, {0: Axis(axis)}))
    return Factors(found, [(0,)])
