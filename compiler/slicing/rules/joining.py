"""Joining rules: split operators that join values along an axis, or take them apart.

Along the axis itself all parts are split alike: each rank holds its share of every part. The
joined value then has a segment for each part (see placements.py).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np

from ...source_graph.dims import fixed
from ..placement.local_node import LocalNode
from ..placement.operator_node import NodeOperand, OperatorNode, Strategy
from ..placement.placements import Partial, Placement, Split, split
from .registry import always, strategies_of


def shares(placement: Split) -> tuple[int, ...]:
    """The bounds of a split in its smallest units."""
    unit = max(math.gcd(*placement.bounds), 1)
    return tuple(bound // unit for bound in placement.bounds)


def shared_out(axis: int, length: int, share: Sequence[int]) -> Split | None:
    """`length` elements in one segment with these shares; None where they do not come out even."""
    if length % share[-1]:
        return None
    return split(axis, [bound * (length // share[-1]) for bound in share])


def joined(axis: int, parts: Sequence[Split]) -> Split | None:
    """The split of parts that are joined along `axis`; None where their shares differ."""
    share = shares(parts[0])
    if any(shares(part) != share for part in parts):
        return None
    ratios: list[int] = []
    for part in parts:
        unit = part.bounds[-1] // share[-1]
        ratios += [ratio * unit for ratio in part.ratios]
    return split(axis, share, ratios)


def taken_apart(placement: Split, lengths: Sequence[int]) -> list[Split] | None:
    """The splits of parts of these lengths; None where a segment crosses from one to the next."""
    segments = [ratio * placement.bounds[-1] for ratio in placement.ratios]
    found, at = [], 0
    for length in lengths:
        ratios, taken = [], 0
        while taken < length and at < len(segments):
            taken += segments[at]
            ratios.append(placement.ratios[at])
            at += 1
        part = split(placement.axis, placement.bounds, ratios) if taken == length else None
        if part is None:
            return None
        found.append(part)
    return found


def _lengths(dims: Sequence[object], axis: int) -> list[int] | None:
    found = [fixed(one[axis]) if one is not None else None for one in dims]  # type: ignore[index]
    return None if None in found else [size for size in found if size is not None]


@strategies_of("Concat", shares=always)
def concat(node: OperatorNode, operand: NodeOperand, placement: Placement) -> Iterator[Strategy]:
    """Other axes are split alike everywhere."""
    count = range(len(node.inputs))
    axis = node.axis_of(rank=len(node.outputs[0] or ()))
    if isinstance(placement, Partial):
        yield node.strategy(dict.fromkeys(count, placement), {0: placement})
    elif isinstance(placement, Split) and placement.axis != axis:
        yield node.strategy(dict.fromkeys(count, placement), {0: placement})
    elif isinstance(placement, Split):
        lengths = _lengths(node.inputs, axis)
        parts = parts_of(operand, placement, lengths) if lengths else None
        whole = joined(axis, parts) if parts else None
        if parts and whole:
            yield node.strategy(dict(enumerate(parts)), {0: whole})


def parts_of(operand: NodeOperand, placement: Split, lengths: Sequence[int]) -> list[Split] | None:
    """The splits of all parts, where the joined value or one part has `placement`."""
    if operand.is_output:
        return taken_apart(placement, lengths)
    found = []
    for index, length in enumerate(lengths):
        part = placement if index == operand.index else None
        if part is None and length == lengths[operand.index]:
            part = placement
        part = part or shared_out(placement.axis, length, shares(placement))
        if part is None:
            return None
        found.append(part)
    return found


def _split_sizes(local: LocalNode) -> None:
    """Give the sizes of this rank's parts."""
    placement = local.strategy.inputs[0]
    axis = local.source.axis_of()
    if not isinstance(placement, Split) or placement.axis != axis:
        return
    sizes = [one.size(local.rank) for one in local.strategy.outputs if isinstance(one, Split)]
    local.node.attributes.pop("num_outputs", None)
    if "split" in local.node.attributes:
        local.set("split", sizes)
        return
    value = local.constant(np.array(sizes, np.int64))
    if len(local.node.inputs) < 2:
        local.node.resize_inputs(2)
    local.node.replace_input_with(1, value)


@strategies_of("Split", localise=_split_sizes, shares=always)
def take_apart(
    node: OperatorNode, operand: NodeOperand, placement: Placement
) -> Iterator[Strategy]:
    """As Concat, the other way round."""
    count = range(len(node.outputs))
    axis = node.axis_of()
    if isinstance(placement, Partial):
        yield node.strategy({0: placement}, dict.fromkeys(count, placement))
    elif isinstance(placement, Split) and placement.axis != axis:
        yield node.strategy({0: placement}, dict.fromkeys(count, placement))
    elif isinstance(placement, Split):
        lengths = _lengths(node.outputs, axis)
        own = NodeOperand(operand.index, not operand.is_output)
        parts = parts_of(own, placement, lengths) if lengths else None
        whole = joined(axis, parts) if parts else None
        if parts and whole:
            yield node.strategy({0: whole}, dict(enumerate(parts)))
