"""Shared parts: strategies of nodes whose ranks have the same elements, such as heads of keys.

Rules know splits, whose parts do not overlap. Windows are made of the parts of a split that has a
bound wherever a window begins or ends. Where a node computes each part by itself, a rank computes
all parts of its window.
"""

from __future__ import annotations

from .operator_node import Strategy
from .placements import WHOLE, Placement, Split, Windows, split


def parted(windows: Windows, length: int) -> Split | None:
    """The split of an axis of `length` elements whose parts make up the windows."""
    return split(windows.axis, sorted({0, length, *windows.starts, *windows.stops}))


def windowed(strategy: Strategy, windows: Windows, parts: Split) -> Strategy | None:
    """The strategy in which each rank has the parts that its window of `parts` is made of.

    None where an operand is a sum of parts, or is not in as many parts in one row.
    """
    starts = [parts.bounds.index(one) for one in windows.starts]
    stops = [parts.bounds.index(one) for one in windows.stops]

    def turned(one: Placement) -> Placement | None:
        if one == WHOLE:
            return one
        if not isinstance(one, Split) or one.ratios != (1,) or one.ranks != parts.ranks:
            return None
        firsts, lasts = (tuple(one.bounds[at] for at in ends) for ends in (starts, stops))
        return Windows(one.axis, firsts, lasts)

    inputs = [turned(one) for one in strategy.inputs]
    outputs = [turned(one) for one in strategy.outputs]
    if None in inputs or None in outputs:
        return None
    return Strategy(
        tuple(one for one in inputs if one is not None),
        tuple(one for one in outputs if one is not None),
    )
