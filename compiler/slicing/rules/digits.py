"""Digits: find the axis of a reshaped value that holds the split axis of the value before.

The elements of a value are numbered in row-major order. An axis is one digit of that number: with
the axes behind it as its stride, and its size as its radix. A reshape keeps the numbers, so a
split of an axis is a set of numbers that repeats with the axis's span (stride times radix). An
axis of the other shape holds the same set if no part begins or ends inside one of its steps.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...source_graph.dims import Dim, Dims, fixed, product
from ..placement.placements import Split, split

_MOST = 1 << 20
"""How often the ratios of a split may repeat: no useful split is finer."""


def reshaped(before: Dims, after: Dims, placement: Split) -> Split | None:
    """The split of a value of shape `after` that a reshape makes of `placement` of `before`.

    None where no single axis holds it. It works in both directions of a reshape.
    """
    axis = placement.axis
    behind = _equal(before[::-1], after[::-1])
    if axis >= len(before) - behind:
        return placement.at(axis - len(before) + len(after))
    ahead = _equal(before, after)
    if axis < ahead:
        return placement.at(axis)
    middle = before[ahead : len(before) - behind]
    other = after[ahead : len(after) - behind]
    return _found(middle, other, placement.at(axis - ahead), ahead)


def _equal(first: Sequence[Dim], second: Sequence[Dim]) -> int:
    """How many axes from the beginning are the same."""
    count = 0
    for one, two in zip(first, second, strict=False):
        if one != two:
            break
        count += 1
    return count


def _found(before: Dims, after: Dims, placement: Split, ahead: int) -> Split | None:
    choices = len(before[0])
    stride = fixed(product(before[placement.axis + 1 :], choices))
    if stride is None:
        return None
    for axis, dim in enumerate(after):
        own = fixed(product(after[axis + 1 :], choices))
        size = fixed(dim)
        if own is not None and size is not None and size > 1:
            ratios = _repeated(placement, stride, own * size)
            part = _in_steps(placement.bounds, ratios, stride, own, axis + ahead)
            if part is not None and part.length == size:
                return part
    return None


def _repeated(placement: Split, stride: int, span: int) -> tuple[int, ...]:
    """The ratios over a span of `span` numbers; () where they do not repeat with it."""
    own = placement.length * stride
    if span > _MOST * own:
        return ()
    if span % own == 0:
        return placement.ratios * (span // own)
    if own % span == 0:
        times = own // span
        count, rest = divmod(len(placement.ratios), times)
        head = placement.ratios[:count]
        if not rest and head * times == placement.ratios:
            return head
    return ()


def _in_steps(
    bounds: Sequence[int], ratios: Sequence[int], stride: int, own: int, axis: int
) -> Split | None:
    """A split whose parts, `stride` numbers an element, are counted in steps of `own` numbers."""
    if not ratios:
        return None
    if all(bound * stride % own == 0 for bound in bounds):
        return split(axis, [bound * stride // own for bound in bounds], ratios)
    if all(ratio * stride % own == 0 for ratio in ratios):
        return split(axis, bounds, [ratio * stride // own for ratio in ratios])
    return None
