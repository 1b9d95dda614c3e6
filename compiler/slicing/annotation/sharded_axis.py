"""Sharded axes: splits in the words of ONNX, which divides factors of an axis evenly."""

from __future__ import annotations

import math
from collections.abc import Sequence

from ..placement.placements import Split, even_split, split

Factors = Sequence[tuple[int | None, int]]
"""The factors of an axis, each with its size and the number of its shards."""


def factors_of(placement: Split) -> Factors | None:
    """The factors of a split axis; None where ONNX has no words for it: uneven heads or ratios."""
    if set(placement.ratios) != {1}:
        return None
    segments, bounds = len(placement.ratios), placement.bounds
    for unit in (1, math.gcd(*bounds)):
        steps = even_split(placement.axis, bounds[-1] // unit, placement.ranks)
        if steps is not None and tuple(unit * one for one in steps.bounds) == bounds:
            parts = [(segments, 1), (bounds[-1] // unit, placement.ranks), (unit, 1)]
            return [one for one in parts if one != (1, 1)]
    return None


def split_of(axis: int, factors: Factors, length: int, ranks: int) -> Split:
    """The split that factors of an axis of `length` elements describe; ValueError says why none."""
    counts = [shards for _, shards in factors if shards != 1]
    if counts != [ranks]:
        raise ValueError(f"axis {axis} is divided into {counts} shards, expected [{ranks}]")
    sizes = [length if size is None and len(factors) == 1 else size for size, _ in factors]
    known = [size for size in sizes if size is not None]
    if len(known) < len(sizes) or math.prod(known) != length:
        raise ValueError(f"axis {axis} has {length} elements, and its factors are {sizes}")
    place = next(at for at, (_, shards) in enumerate(factors) if shards != 1)
    outer, inner = math.prod(known[:place]), math.prod(known[place + 1 :])
    steps = even_split(axis, known[place], ranks)
    if steps is None:
        raise ValueError(f"{known[place]} elements cannot be divided among {ranks} devices")
    found = split(axis, [inner * one for one in steps.bounds], (1,) * outer)
    assert found is not None
    return found
