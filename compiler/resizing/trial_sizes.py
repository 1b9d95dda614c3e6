"""Trial sizes: the input shapes that a model is gone through with, as exported and as asked for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

Shape = tuple[int, ...]
_ANY = 8
"""The size of a dimension that is open in the file and stays open."""

_MOST = 8
"""The most shapes to try instead of those that do not fit."""


def opened(exported: Sequence[Shape | None], asked: Sequence[Shape]) -> list[Shape]:
    """The asked shapes with every size that differs from the exported one left open."""
    return [
        tuple(-1 if old != new else new for old, new in zip(before, after, strict=True))
        for before, after in _pairs(exported, asked)
    ]


def trials(
    exported: Sequence[Shape | None], asked: Sequence[Shape]
) -> Iterator[tuple[list[Shape], list[Shape]]]:
    """Shapes as exported, and shapes to compare them with; one of them has to fit.

    An open dimension has the size that is asked for in both. One that is to be opened is tried
    with twice its size, and with half of it.
    """
    pairs = _pairs(exported, asked)
    before = [
        tuple(_exported(*sizes) for sizes in zip(old, new, strict=True)) for old, new in pairs
    ]
    opens = any(size > 0 > other for old, new in pairs for size, other in _both(old, new))
    for factor in (2.0, 0.5) if opens else (1.0,):
        yield (
            before,
            [tuple(_asked(old, new, factor) for old, new in _both(was, now)) for was, now in pairs],
        )


def nearest(
    exported: Sequence[Shape | None], asked: Sequence[Shape], held: Sequence[int]
) -> Iterator[list[Shape]]:
    """Shapes to try instead: the asked ones with one size as exported, then those of the file.

    For a size that the file leaves open, those that constants have, `held`, are tried.
    """
    pairs = _pairs(exported, asked)
    places = [(at, axis) for at, (old, _) in enumerate(pairs) for axis in range(len(old))]
    changed = [place for place in places if _is_changed(pairs, place)]
    for place in changed[:_MOST] if len(changed) > 1 else ():
        yield _replaced(pairs, {place: _size(pairs, place)})
    if changed:
        yield _replaced(pairs, {place: _size(pairs, place) for place in changed})
    free = [place for place in places if _size(pairs, place) < 0]
    yield from (_replaced(pairs, {place: size}) for size in held for place in free[:_MOST])


def _size(pairs: Sequence[tuple[Shape, Shape]], place: tuple[int, int]) -> int:
    """The exported size at a place: an input and an axis."""
    return pairs[place[0]][0][place[1]]


def _is_changed(pairs: Sequence[tuple[Shape, Shape]], place: tuple[int, int]) -> bool:
    at, axis = place
    return _size(pairs, place) not in (-1, pairs[at][1][axis])


def _replaced(
    pairs: Sequence[tuple[Shape, Shape]], sizes: Mapping[tuple[int, int], int]
) -> list[Shape]:
    """The asked shapes with other sizes at some places."""
    return [
        tuple(sizes.get((at, axis), size) for axis, size in enumerate(new))
        for at, (_, new) in enumerate(pairs)
    ]


def _pairs(exported: Sequence[Shape | None], asked: Sequence[Shape]) -> list[tuple[Shape, Shape]]:
    return [
        ((-1,) * len(new) if old is None or len(old) != len(new) else old, new)
        for old, new in zip(exported, asked, strict=True)
    ]


def _both(old: Shape, new: Shape) -> Iterator[tuple[int, int]]:
    return zip(old, new, strict=True)


def _exported(old: int, new: int) -> int:
    if old >= 0:
        return old
    return _ANY if new < 0 else max(new, 1)


def _asked(old: int, new: int, factor: float) -> int:
    if new >= 0:
        return new
    return max(1, int(old * factor)) if old >= 0 else _ANY
