"""Reshape axes: tells which axes of the input become which axes of the output, by their sizes.

Elements keep their order. So the first axes of the input are the first ones of the output, as far
as both have equally many elements: such a place parts the axes in groups. [4, 8, 8] to [4, 64] has
two, 4 and 4, then 8, 8 and 64.
"""

from __future__ import annotations

from math import prod

Shape = tuple[int, ...]
Place = tuple[int, int]
Group = tuple[range, range]
"""Axes of the input, and those of the output that they become."""


def contradiction(before: tuple[Shape, Shape], after: tuple[Shape, Shape]) -> range | None:
    """The axes of the output that do not follow those of the input, None where all do.

    `before` has both shapes as exported, `after` as asked for. Of several ways to part the axes,
    such as at sizes of 1, one has to do.
    """
    if before[1] == after[1] and prod(after[0]) == prod(after[1]):
        return None  # from here on all is as exported
    first: range | None = None
    for groups in groupings(*before):
        wrong = next((one for one in groups if _differ(one, before, after)), None)
        if wrong is None:
            return None
        first = first or wrong[1]
    return first


def groupings(source: Shape, target: Shape) -> list[list[Group]]:
    """The ways to part the axes of an input and of an output into the most groups."""
    ways: dict[Place, list[list[Place]]] = {(0, 0): [[(0, 0)]]}
    for i in range(1, len(source) + 1):
        for j in range(1, len(target) + 1):
            if prod(source[:i]) == prod(target[:j]):
                ways[i, j] = _longest(ways, i, j)
    places = ways.get((len(source), len(target)), [])
    return [[_group(*pair) for pair in zip(way, way[1:], strict=False)] for way in places]


def _longest(ways: dict[Place, list[list[Place]]], i: int, j: int) -> list[list[Place]]:
    """The longest ways to a place, a few of them."""
    to = [[*way, (i, j)] for (a, b), found in ways.items() if a < i and b < j for way in found]
    most = max(map(len, to), default=0)
    return [way for way in to if len(way) == most][:16]


def _group(first: Place, last: Place) -> Group:
    return range(first[0], last[0]), range(first[1], last[1])


def _differ(group: Group, before: tuple[Shape, Shape], after: tuple[Shape, Shape]) -> bool:
    """Whether the axes of a group have other elements, or an axis takes up what another lost."""
    (old, old_result), (new, new_result) = (
        tuple(tuple(shape[axis] for axis in axes) for shape, axes in zip(both, group, strict=True))
        for both in (before, after)
    )
    if prod(new) != prod(new_result):
        return True
    sources, targets = _changed(old, new), _changed(old_result, new_result)
    return not all(any(_meet(one, other) for other in targets) for one in sources)


def _changed(before: Shape, after: Shape) -> list[tuple[int, int]]:
    """For each axis whose size changed, the elements behind it, and those with it."""
    found = []
    for axis, (old, new) in enumerate(zip(before, after, strict=True)):
        if old != new:
            behind = prod(before[axis + 1 :])
            found.append((behind, behind * old))
    return found


def _meet(one: tuple[int, int], other: tuple[int, int]) -> bool:
    """Whether two axes cover the same steps of memory, at least in part; one of size 1 covers a
    point.
    """
    low, high = max(one[0], other[0]), min(one[1], other[1])
    return low < high or (low == high and (one[0] == one[1] or other[0] == other[1]))
