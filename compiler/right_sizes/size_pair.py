"""Size pairs: two sizes that a node needs to be equal."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from ..source_graph.contrib_node import ContribNode, Shape


class SizePair(NamedTuple):
    """Two sizes that must be equal, unless one is 1 that may be.

    `only_likely` says that other sizes are possible, too, but unusual.
    """

    first: int
    second: int
    first_may_be_one: bool = False
    second_may_be_one: bool = False
    only_likely: bool = False


Pairs = Iterator[SizePair]
PairsOf = Callable[[ContribNode], Pairs]


def exactly(first: Sequence[int] | None, second: Sequence[int] | None) -> Pairs:
    """Sizes of two shapes, axis by axis; none where one is unknown."""
    for one, other in zip(first or (), second or (), strict=False):
        yield SizePair(one, other)


def broadcast(first: Shape | None, second: Shape | None) -> Pairs:
    """Two shapes of which each is repeated where it has the size 1."""
    for one, other in zip((first or ())[::-1], (second or ())[::-1], strict=False):
        yield SizePair(one, other, True, True)


def broadcast_to(target: Shape | None, given: Shape | None) -> Pairs:
    """A shape that is repeated where it has the size 1, until it is the target."""
    for one, other in zip((target or ())[::-1], (given or ())[::-1], strict=False):
        yield SizePair(one, other, False, True)


def axes_of(one: ContribNode, index: int) -> Sequence[int]:
    """The axes that an attribute or, since opset 13, an input lists; empty where unknown."""
    listed = one.node.attributes.get("axes")
    if listed is not None:
        return listed.as_ints()
    given = one.values.get(one.name(index))
    return [] if given is None else [int(axis) for axis in given.reshape(-1)]
