"""The outputs of a request: who gives which, how much room they need, and the arrays that callers get."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any

from numpy.typing import NDArray

from ..comm.errors import RankFailed
from ..comm.serving.layout import Layout, Part
from ..comm.serving.nonsense import Nonsense
from ..comm.serving.orders import AS_ORDERED, Answer, Serving
from ..comm.serving.tensor_arena import OwnedArena, Region, aligned
from ..comm.serving.tensor_spec import TensorSpec, dtype_named
from .inputs import Inputs
from .work import Work

Array = NDArray[Any]
_GUESS = 1 << 16
"""Bytes of room for outputs of unknown size, until it is known what they need."""


class OutputSpecs:
    """What a group's ranks give; `once` is by whom when one copy of each is asked for, `all` when everybody's is."""

    def __init__(self, reports: Sequence[Serving], arena: OwnedArena) -> None:
        self.specs: tuple[TensorSpec, ...] = reports[0].outputs
        self._dtypes = [dtype_named(spec.dtype) for spec in self.specs]
        self._arena = arena
        self.all = tuple(report.results for report in reports)
        once: list[list[int]] = [[] for _ in reports]
        for position in range(len(self.specs)):
            givers = [rank for rank, results in enumerate(self.all) if position in results]
            if givers:
                once[givers[0]].append(position)
        self.once = tuple(tuple(positions) for positions in once)
        self._sizes: dict[tuple[int, ...], int] = {}
        self._parts: dict[tuple[int, ...], list[tuple[str, Part]]] = {}
        self._names = [spec.name for spec in self.specs]

    def rooms(self, given: Sequence[tuple[int, ...]]) -> list[Region | None]:
        """A region per rank that gives something."""
        regions: list[Region | None] = []
        for positions in given:
            regions.append(self._arena.allocate(self._size(positions)) if positions else None)
        return regions

    def remember(self, positions: tuple[int, ...], needed: int) -> None:
        """Outputs at these positions needed more room than they had: next time, this much."""
        self._sizes[positions] = needed

    def check(self, rank: int, answer: Answer, work: Work) -> None:
        """Raises Nonsense where an answer is none to `work`, or means memory that is not this request's."""
        positions = work.given[rank]
        if answer is AS_ORDERED:  # all of that stands in the order
            return
        if len(answer.outputs) != len(positions):
            raise Nonsense(rank, f"answered with {len(answer.outputs)} outputs, expected {len(positions)}")
        for position, place in zip(positions, answer.outputs, strict=True):
            end = place.offset + self._dtypes[position].itemsize * prod(place.shape)
            if _owner(work, rank, place.offset, end) is None or min(place.shape, default=0) < 0:
                raise Nonsense(rank, f"answered with memory that is not its request's: {self._names[position]!r} of "
                                     f"shape {list(place.shape)} at {place.offset}")

    def arrays(self, answer: Answer, positions: tuple[int, ...], region: Region | None, inputs: Inputs,
               leased: bool) -> dict[str, Array]:
        """The outputs of one rank by name; `leased` ones stay in the arena as long as the caller holds them."""
        if answer is AS_ORDERED:
            return self._as_ordered(positions, region, leased)
        found = {}
        for position, place in zip(positions, answer.outputs, strict=True):
            dtype, shape = self._dtypes[position], place.shape
            end = place.offset + dtype.itemsize * prod(shape)
            owner = region if region is not None and _inside(region, place.offset, end) else inputs.region
            array = owner.array(place.offset - owner.offset, dtype, shape)
            found[self._names[position]] = array if leased else array.copy()
        return found

    def _as_ordered(self, positions: tuple[int, ...], region: Region | None, leased: bool) -> dict[str, Array]:
        found = {}
        if region is not None:
            for name, (offset, dtype, shape, _) in self._parts.get(positions) or self._laid_out(positions):
                array = region.array(offset, dtype, shape)
                found[name] = array if leased else array.copy()
        return found

    def _laid_out(self, positions: tuple[int, ...]) -> list[tuple[str, Part]]:
        layout = Layout.declared([self.specs[position] for position in positions])
        if layout is None:  # an honest rank could not have known where
            raise RankFailed(f"a rank left out the shapes of outputs, which only it can know: {positions}")
        names = [self._names[position] for position in positions]
        self._parts[positions] = parts = list(zip(names, layout.parts, strict=True))
        return parts

    def _size(self, positions: tuple[int, ...]) -> int:
        if positions not in self._sizes:
            known = all(self.specs[position].fixed for position in positions)
            self._sizes[positions] = sum(aligned(self._bytes(position)) for position in positions) if known else _GUESS
        return self._sizes[positions]

    def _bytes(self, position: int) -> int:
        return self._dtypes[position].itemsize * prod(self.specs[position].shape or ())


def room_of(region: Region | None) -> tuple[int, int]:
    """A region as ranks are told of it: offset and size."""
    return (0, 0) if region is None else (region.offset, region.size)


def in_order(specs: Sequence[TensorSpec], found: Mapping[str, Array]) -> dict[str, Array]:
    """Outputs in the model's order."""
    return {spec.name: found[spec.name] for spec in specs if spec.name in found}


def _owner(work: Work, rank: int, start: int, end: int) -> Region | None:
    """Which region of a rank's request a tensor lies in; numpy would take an offset below zero for what it says."""
    room = work.regions[rank]
    if room is not None and _inside(room, start, end):
        return room
    return work.inputs.region if work.inputs is not None and _inside(work.inputs.region, start, end) else None


def _inside(region: Region, start: int, end: int) -> bool:
    """Whether a tensor, which may be empty, lies in a region; a neighbour's begins where it ends."""
    return region.offset <= start and end <= region.offset + region.size
