"""Cutting rules: split operators that cut a value down, or add borders to it, along some axes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from ...source_graph.dims import fixed
from ..placement.factors import Axis, Factor, Factors
from ..placement.local_node import LocalNode
from ..placement.operator_node import NodeOperand, OperatorNode, Strategy
from ..placement.placements import SUM, Partial, Placement, Split
from .joining import joined, parts_of, taken_apart
from .registry import always, factors_of, strategies_of


@dataclass(frozen=True, slots=True)
class _Cut:
    """The part of an axis that a Slice takes; `place` is the entry of the axis in its inputs.

    `start` and `stop` are None where they are not known, or lie at a distance.
    """

    place: int
    start: int | None = None
    stop: int | None = None


def _cuts(node: OperatorNode) -> dict[int, _Cut] | None:
    """The cuts of a Slice, by axis, of all axes that may be shortened; None for computed axes."""
    dims, starts, ends = node.inputs[0], node.constants.get(1), node.constants.get(2)
    if dims is None or not node.inputs[1]:
        return None
    count = fixed(node.inputs[1][0]) or 0
    axes = node.constants.get(3) if node.has_input(3) else np.arange(count)
    steps = node.constants.get(4) if node.has_input(4) else np.ones(count, np.int64)
    if axes is None:
        return None
    found = {}
    for place, axis in enumerate(int(one) % len(dims) for one in axes.flat):
        length = fixed(dims[axis])
        if starts is None or ends is None or steps is None or length is None or steps[place] != 1:
            found[axis] = _Cut(place)
            continue
        start, stop, _ = slice(int(starts[place]), int(ends[place])).indices(length)
        if (start, stop) != (0, length):
            found[axis] = _Cut(place, start, stop)
    return found


def _slice_bounds(local: LocalNode) -> None:
    """Cut this rank's part of the axis where the wanted part begins and ends."""
    before, after = local.strategy.inputs[0], local.strategy.outputs[0]
    if not isinstance(before, Split) or not isinstance(after, Split):
        return
    cut = (_cuts(local.source) or {}).get(before.axis)
    if cut is None or cut.start is None or cut.stop is None:
        return
    parts = taken_apart(before, [size for size in (cut.start, cut.stop - cut.start) if size])
    assert parts is not None
    start = parts[0].size(local.rank) if cut.start else 0
    for index, bound in ((1, start), (2, start + after.size(local.rank))):
        bounds = local.source.constants[index].copy()
        bounds[cut.place] = bound
        local.set_constant(index, bounds)


@strategies_of("Slice", localise=_slice_bounds, shares=always)
def cut_out(node: OperatorNode, operand: NodeOperand, placement: Placement) -> Iterator[Strategy]:
    """Axes that are not cut are split alike; a cut axis by segments."""
    cuts = _cuts(node)
    if operand.index and not operand.is_output or cuts is None:
        return
    if isinstance(placement, Partial) or (
        isinstance(placement, Split) and placement.axis not in cuts
    ):
        yield node.strategy({0: placement}, {0: placement})
    elif isinstance(placement, Split):
        yield from _cut_segments(node, operand, placement, cuts[placement.axis])


def _cut_segments(
    node: OperatorNode, operand: NodeOperand, placement: Split, cut: _Cut
) -> Iterator[Strategy]:
    dims, axis = node.inputs[0], placement.axis
    if cut.start is None or cut.stop is None or cut.start >= cut.stop or dims is None:
        return
    lengths = [cut.start, cut.stop - cut.start, (fixed(dims[axis]) or 0) - cut.stop]
    place = 1 if cut.start else 0
    own = NodeOperand(0, True) if not operand.is_output else NodeOperand(place)
    parts = parts_of(own, placement, [length for length in lengths if length])
    whole = joined(axis, parts) if parts else None
    if parts and whole:
        yield node.strategy({0: whole}, {0: parts[place]})


def _padded_axes(node: OperatorNode) -> set[int] | None:
    """The axes that a Pad changes; None where they are computed."""
    count = len(node.inputs[0] or ())
    pads = node.constants.get(1)
    axes = node.constants.get(3) if node.has_input(3) else np.arange(count)
    if pads is None or axes is None:
        return None
    sums = pads.reshape(2, -1)
    return {int(axis) % count for place, axis in enumerate(axes.flat) if sums[:, place].any()}


@factors_of("Pad")
def pad(node: OperatorNode) -> Factors:
    """Axes that get no border; linear unless the border is a number other than zero."""
    padded = _padded_axes(node)
    if padded is None:
        return Factors(())
    axes = [axis for axis in range(len(node.inputs[0] or ())) if axis not in padded]
    value = node.constants.get(2) if node.has_input(2) else np.zeros(1)
    constant = node.text_of("mode", "constant") == "constant"
    linear = not constant or value is not None and not value.any()
    found = [Factor({0: Axis(axis)}, {0: Axis(axis)}) for axis in axes]
    return Factors(found, [(0,)] if linear else [])


def _own_diagonal(local: LocalNode) -> None:
    """Move the diagonal, which counts from the first element of the whole matrix."""
    placement = local.strategy.inputs[0]
    count = len(local.source.inputs[0] or ())
    if not isinstance(placement, Split) or placement.axis < count - 2:
        return
    start = placement.intervals(local.rank)[0][0]
    moved = np.array(start if placement.axis == count - 2 else -start, np.int64)
    if local.source.has_input(1):
        diagonal = local.before("Add", [local.input(1), local.constant(moved)])
        local.node.replace_input_with(1, diagonal)
    else:
        local.node.resize_inputs(2)
        local.set_constant(1, moved)


@strategies_of("Trilu", localise=_own_diagonal)
def triangle(node: OperatorNode, operand: NodeOperand, placement: Placement) -> Iterator[Strategy]:
    """Rows and columns in one segment; all other axes; linear."""
    count = len(node.outputs[0] or ())
    if operand.index and not operand.is_output:
        return
    if isinstance(placement, Split):
        fits = placement.axis < count - 2 or placement.ratios == (1,)
    else:
        fits = placement == SUM
    if fits:
        yield node.strategy({0: placement}, {0: placement})
