"""Edges: rows of images, and the elements of each rank's part that others' windows reach into."""

from __future__ import annotations

from ...source_graph.dims import Dims, fixed
from .placements import Placement, Split, Windows

IMAGE_AXES = 4
"""Values with so many axes count as images."""


def has_rows(dims: Dims, placement: Placement) -> bool:
    """Whether ranks have rows or columns of images, of which there is a fixed number."""
    if not isinstance(placement, Split | Windows) or fixed(dims[0]) is None:
        return False
    plain = isinstance(placement, Windows) or placement.ratios == (1,)
    return plain and len(dims) == IMAGE_AXES and placement.axis >= 2


def cut_alike(before: Placement, after: Placement) -> bool:
    """Whether `after` are windows that parts of `before` and their edges make up."""
    return (
        isinstance(before, Split)
        and isinstance(after, Windows)
        and before.ratios == (1,)
        and before.axis == after.axis
    )


def edges(before: Split, after: Windows) -> list[list[int]]:
    """For each rank, the elements of its part that others need, counted in the whole axis."""
    ranks = range(before.ranks)
    return [
        sorted(
            {one for other in ranks if other != rank for one in overlap(before, after, rank, other)}
        )
        for rank in ranks
    ]


def overlap(before: Split, after: Windows, owner: int, needer: int) -> range:
    """The elements of `owner`'s part that the window of `needer` holds."""
    first, last = before.bounds[owner], before.bounds[owner + 1]
    return range(max(first, after.starts[needer]), min(last, after.stops[needer]))
