"""Outputs of requests: the ranks that give them, their memory, and the arrays of callers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import prod
from operator import attrgetter

from ...comm.arrays import Array
from ...comm.request_memory.owned_arena import OwnedArena, Region
from ...comm.request_memory.tensor_arena import aligned
from ...comm.serving.orders import (
    AS_ORDERED,
    Answer,
    GivenOutputs,
    InvalidRankData,
    ModelReport,
    Rooms,
)
from ...comm.serving.tensor_spec import TensorLayout, TensorSpec, dtype_named
from .placed_outputs import OutputLayout, PlacedOutputs
from .request_inputs import RequestInputs
from .string_outputs import StringOutputs

Positions = tuple[int, ...]
"""Which outputs of a model, by their positions."""

_ROOM = attrgetter("offset", "size")
_GUESS = 1 << 16
"""Bytes for outputs of unknown size, until a rank has said what they need."""


class OutputSpecs:
    """Outputs of one replica's ranks.

    `once` are those that ranks give where one copy of each is asked for, `all` those they have.
    """

    def __init__(self, reports: Sequence[ModelReport], arena: OwnedArena) -> None:
        """`reports` are the ranks', in rank order."""
        self.specs: tuple[TensorSpec, ...] = reports[0].outputs
        self.strings = StringOutputs(self.specs)
        self._stored = [spec.stored for spec in self.specs]
        self._dtypes = [dtype_named(spec.dtype) for spec in self._stored]
        self._names = [spec.name for spec in self.specs]
        self._arena = arena
        self.world_size = len(reports)
        self.all = _given([report.results for report in reports])
        once: list[list[int]] = [[] for _ in reports]
        for position in range(len(self.specs)):
            givers = [rank for rank, report in enumerate(reports) if position in report.results]
            if givers:
                once[givers[0]].append(position)
        self.once = _given(map(tuple, once))
        self._sizes: dict[Positions, int] = {}
        self._layouts: dict[Positions, OutputLayout] = {}

    def allocate(self, given: GivenOutputs) -> tuple[dict[int, Region], Rooms]:
        """Memory for the outputs of each rank that gives some, and as orders name it."""
        regions = {}
        for rank, positions in given.by_rank.items():
            size = self._sizes.get(positions)
            regions[rank] = self._arena.allocate(self._size(positions) if size is None else size)
        return regions, tuple(map(_ROOM, regions.values()))

    def allocate_again(self, positions: Positions, needed: int) -> Region:
        """Memory of `needed` bytes for outputs that were larger; as much is allocated next time."""
        region = self._arena.allocate(needed)
        self._sizes[positions] = needed
        return region

    def found(
        self,
        rank: int,
        answer: Answer,
        positions: Positions,
        region: Region,
        inputs: RequestInputs,
    ) -> dict[str, Array] | PlacedOutputs:
        """The outputs of one rank by name: in the memory for them, or in that of the inputs, where
        an output is an input that was handed on. They keep it as long as they are held.

        Raises InvalidRankData where an answer does not give these outputs, or names other memory.
        """
        if answer is AS_ORDERED:  # all of that stands in the order
            layout = self._layouts.get(positions) or self._note_layout(rank, positions)
            return PlacedOutputs(layout, region)
        if len(answer.outputs) != len(positions):
            text = f"answered with {len(answer.outputs)} outputs, expected {len(positions)}"
            raise InvalidRankData(rank, text)
        arrays = {}
        for position, ref in zip(positions, answer.outputs, strict=True):
            offset, shape, dtype = ref.offset, ref.shape, self._dtypes[position]
            end = offset + dtype.itemsize * prod(shape)
            inside = region.contains(offset, end)
            owner = region if inside else inputs.region_at(offset, end)  # an input is handed on
            if owner is None or min(shape, default=0) < 0:
                raise InvalidRankData(
                    rank,
                    f"answered with memory that is not its request's: {self._names[position]!r} of "
                    f"shape {list(shape)} at {offset}",
                )
            arrays[self._names[position]] = owner.array(offset - owner.offset, dtype, shape)
        return arrays

    def in_order(self, found: Mapping[str, Array]) -> dict[str, Array]:
        """Outputs in the model's order."""
        return {name: found[name] for name in self._names if name in found}

    def _note_layout(self, rank: int, positions: Positions) -> OutputLayout:
        layout = TensorLayout.declared([self._stored[position] for position in positions])
        if layout is None:  # a rank that keeps to the protocol could not have known where
            text = f"left out the shapes of outputs, which only it can know: {positions}"
            raise InvalidRankData(rank, text)
        names = [self._names[position] for position in positions]
        found = OutputLayout(dict(zip(names, layout.parts, strict=True)))
        self._layouts[positions] = found
        return found

    def _size(self, positions: Positions) -> int:
        known = all(self._stored[position].fixed for position in positions)
        total = sum(aligned(self._bytes(position)) for position in positions) if known else _GUESS
        self._sizes[positions] = total
        return total

    def _bytes(self, position: int) -> int:
        return self._dtypes[position].itemsize * prod(self._stored[position].shape or ())


def _given(by_rank: Iterable[Positions]) -> GivenOutputs:
    """The outputs that ranks give, in rank order."""
    return GivenOutputs({rank: given for rank, given in enumerate(by_rank) if given})
