"""Equations: solves that two sizes are equal for the one open dimension that they depend on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations

from .probes import Numbers
from .size_pair import SizePair

_TERMS = 3
"""The most dimensions in a sum."""


def solved(pair: Sequence[SizePair], names: Mapping[str, Numbers]) -> tuple[str, int, bool] | None:
    """The dimension that makes an unequal pair equal, its size, and whether it may be 1 instead.

    `names` has the numbers of each open dimension. None where no single one does.
    """
    first, second = sides(pair)
    if 0 in (*first, *second):
        return None
    may_be_one = pair[0].first_may_be_one, pair[0].second_may_be_one
    for own, other, may in ((first, second, may_be_one[0]), (second, first, may_be_one[1])):
        for name, numbers in names.items():
            size = _factor(own, other, numbers)
            if size is None and len(set(other)) == 1:
                size = _summand(own, other[0], numbers)
            if size is not None:
                return name, size, may and own == numbers[: len(own)]
    return None


def differs(pair: Sequence[SizePair]) -> bool:
    """Whether a pair is unequal in every probe, and none is 1 that may be."""
    first, second = sides(pair)
    repeated = pair[0].first_may_be_one and {*first} == {1}
    repeated |= pair[0].second_may_be_one and {*second} == {1}
    return not repeated and all(a != b for a, b in zip(first, second, strict=True))


def sides(pair: Sequence[SizePair]) -> tuple[Numbers, Numbers]:
    """The first and the second size of a pair in each probe."""
    return tuple(one.first for one in pair), tuple(one.second for one in pair)


def _factor(own: Numbers, other: Numbers, numbers: Numbers) -> int | None:
    """The size, where `own` is `other` with the dimension as a factor in place of a constant."""
    size, rest = divmod(other[0] * numbers[0], own[0])
    if rest or size < 1:
        return None
    same = zip(own, other, numbers, strict=False)
    return size if all(a * size == b * number for a, b, number in same) else None


def _summand(own: Numbers, total: int, numbers: Numbers) -> int | None:
    """The size, where `own` is a multiple of the dimension and a constant, and `total` is fixed.

    Two points are on a line always: only a third one tells.
    """
    if len(own) < 3:
        return None
    (a, b, _), (first, second, _) = own, numbers
    times, rest = divmod(b - a, second - first)
    if rest or times < 1:
        return None
    constant = a - times * first
    if any(one != times * number + constant for one, number in zip(own, numbers, strict=False)):
        return None
    size, rest = divmod(total - constant, times)
    return size if not rest and size >= 0 else None


def sum_of(
    pair: Sequence[SizePair], names: Mapping[str, Numbers]
) -> tuple[str, tuple[str, ...]] | None:
    """A dimension, and others whose sum it must be so that a pair is equal."""
    first, second = sides(pair)
    count = len(pair)
    for own, other in ((first, second), (second, first)):
        for name in (name for name, numbers in names.items() if numbers[:count] == own):
            others = [one for one in names if one != name]
            for terms in range(1, _TERMS + 1):
                for some in combinations(others, terms):
                    totals = map(sum, zip(*(names[one] for one in some), strict=True))
                    if tuple(totals)[:count] == other:
                        return name, some
    return None
