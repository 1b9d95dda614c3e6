"""Placements: describe how ranks hold a value: whole, in parts, or as terms of a sum.

A Split cuts one axis. The axis is a row of segments, one for each ratio: segment k has
`ratios[k] * bounds[-1]` elements, and rank r holds the elements from `ratios[k] * bounds[r]` to
`ratios[k] * bounds[r + 1]` of each. One segment is the common case. Several are fused values, such
as queries, keys and values in one matrix, of which each rank holds its own heads. Bounds are
uneven where the axis or its heads cannot be divided.

Windows are parts of one axis that overlap. A kernel that slides over an image needs them: a rank's
part of the output depends on more than that part of the input. So do query heads that share keys
and values, where these have fewer heads than there are ranks.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Replicated:
    """Every rank holds the whole value."""

    def __str__(self) -> str:
        return "replicated"


@dataclass(frozen=True, slots=True)
class Partial:
    """Every rank holds a term: the value is their sum, or their maximum ("sum", "max")."""

    reduction: str = "sum"

    def __str__(self) -> str:
        return f"partial({self.reduction})"


@dataclass(frozen=True, slots=True)
class Split:
    """Rank r holds a part of axis `axis` (see the module); equal splits compare equal.

    Make one with `split` or `even_split`, which reduce ratios and bounds to their normal form.
    """

    axis: int
    bounds: tuple[int, ...]
    ratios: tuple[int, ...] = (1,)

    @property
    def ranks(self) -> int:
        """The number of ranks."""
        return len(self.bounds) - 1

    @property
    def length(self) -> int:
        """The elements of the whole axis."""
        return self.bounds[-1] * sum(self.ratios)

    @property
    def even(self) -> bool:
        """Whether all ranks hold equally many elements."""
        return len({self.size(rank) for rank in range(self.ranks)}) == 1

    def size(self, rank: int) -> int:
        """The elements of the axis that `rank` holds."""
        return (self.bounds[rank + 1] - self.bounds[rank]) * sum(self.ratios)

    @property
    def largest(self) -> int:
        """The elements of the axis that the rank with most of them holds."""
        return max(self.size(rank) for rank in range(self.ranks))

    def intervals(self, rank: int) -> list[tuple[int, int]]:
        """The parts of the whole axis that `rank` holds, as (start, stop), in their order."""
        found, base = [], 0
        for ratio in self.ratios:
            found.append((base + ratio * self.bounds[rank], base + ratio * self.bounds[rank + 1]))
            base += ratio * self.bounds[-1]
        return found

    def at(self, axis: int) -> Split:
        """The same parts of another axis."""
        return Split(axis, self.bounds, self.ratios)

    def __str__(self) -> str:
        ratios = f", ratios={list(self.ratios)}" if self.ratios != (1,) else ""
        return f"split(axis={self.axis}, bounds={list(self.bounds)}{ratios})"


@dataclass(frozen=True, slots=True)
class Windows:
    """Rank r holds the elements from `starts[r]` to `stops[r]` of axis `axis`."""

    axis: int
    starts: tuple[int, ...]
    stops: tuple[int, ...]

    @property
    def ranks(self) -> int:
        """The number of ranks."""
        return len(self.starts)

    def size(self, rank: int) -> int:
        """The elements of the axis that `rank` holds."""
        return self.stops[rank] - self.starts[rank]

    @property
    def even(self) -> bool:
        """Whether all ranks hold equally many elements."""
        return len({self.size(rank) for rank in range(self.ranks)}) == 1

    @property
    def largest(self) -> int:
        """The elements of the axis that the rank with most of them holds."""
        return max(self.size(rank) for rank in range(self.ranks))

    def intervals(self, rank: int) -> list[tuple[int, int]]:
        """The part of the whole axis that `rank` holds, as for a split."""
        return [(self.starts[rank], self.stops[rank])]

    def holds(self, other: Split | Windows) -> bool:
        """Whether the part that each rank has of `other` is within its window."""
        return self.axis == other.axis and all(
            self.starts[rank] <= start and stop <= self.stops[rank]
            for rank in range(self.ranks)
            for start, stop in other.intervals(rank)
        )

    def __str__(self) -> str:
        return f"windows(axis={self.axis}, starts={list(self.starts)}, stops={list(self.stops)})"


Placement = Replicated | Split | Partial | Windows
WHOLE = Replicated()
SUM = Partial("sum")
MAX = Partial("max")


def split(axis: int, bounds: Sequence[int], ratios: Sequence[int] = (1,)) -> Split | None:
    """A split in its normal form: ratios without a common factor; None where a part is empty."""
    if not ratios or any(a >= b for a, b in zip(bounds, bounds[1:], strict=False)):
        return None
    unit = math.gcd(*ratios)
    return Split(axis, tuple(unit * bound for bound in bounds), tuple(r // unit for r in ratios))


def even_split(axis: int, length: int, ranks: int) -> Split | None:
    """The split of `length` elements whose parts differ by at most one; None where one is empty."""
    return split(axis, [-(-length * rank // ranks) for rank in range(ranks + 1)])


def scaled(length: int, shares: Sequence[float], unit: int = 1) -> list[int]:
    """Bounds for `length` elements in parts like `shares`, in multiples of `unit`."""
    total, bounds, done = sum(shares), [0], 0.0
    for share in shares:
        done += share
        bounds.append(round(length // unit * done / total) * unit)
    bounds[-1] = length
    return bounds
