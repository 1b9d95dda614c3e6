"""Outputs of requests: the ranks that give them, their memory, and the arrays of callers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod

from ...comm.arrays import Array
from ...comm.serving.orders import AS_ORDERED, Answer, InvalidRankData, ModelReport
from ...comm.serving.tensor_arena import OwnedArena, Region, aligned
from ...comm.serving.tensor_spec import TensorLayout, TensorSlice, TensorSpec, dtype_named
from .request_inputs import RequestInputs
from .string_outputs import StringOutputs

Positions = tuple[int, ...]
"""Which outputs of a model, by their positions."""

_GUESS = 1 << 16
"""Bytes for outputs of unknown size, until a rank has said what they need."""


class OutputSpecs:
    """Outputs of one replica's ranks.

    `once` has by rank the outputs it gives where one copy of each is asked for, `all` those it has.
    """

    def __init__(self, reports: Sequence[ModelReport], arena: OwnedArena) -> None:
        """`reports` are the ranks', in rank order."""
        self.specs: tuple[TensorSpec, ...] = reports[0].outputs
        self.strings = StringOutputs(self.specs)
        self._stored = [spec.stored for spec in self.specs]
        self._dtypes = [dtype_named(spec.dtype) for spec in self._stored]
        self._names = [spec.name for spec in self.specs]
        self._arena = arena
        self.all: tuple[Positions, ...] = tuple(report.results for report in reports)
        once: list[list[int]] = [[] for _ in reports]
        for position in range(len(self.specs)):
            givers = [rank for rank, results in enumerate(self.all) if position in results]
            if givers:
                once[givers[0]].append(position)
        self.once: tuple[Positions, ...] = tuple(map(tuple, once))
        self._sizes: dict[Positions, int] = {}
        self._slices: dict[Positions, list[tuple[str, TensorSlice]]] = {}

    def allocate(self, given: Sequence[Positions]) -> list[Region | None]:
        """Memory for the outputs that each rank gives; None for a rank that gives none."""
        regions: list[Region | None] = []
        for positions in given:
            regions.append(self._arena.allocate(self._size(positions)) if positions else None)
        return regions

    def allocate_again(self, positions: Positions, needed: int) -> Region:
        """Memory of `needed` bytes for outputs that were larger; as much is allocated next time."""
        region = self._arena.allocate(needed)
        self._sizes[positions] = needed
        return region

    def arrays(
        self,
        rank: int,
        answer: Answer,
        positions: Positions,
        region: Region | None,
        inputs: RequestInputs,
    ) -> dict[str, Array]:
        """The outputs of one rank by name: arrays in the memory for them, or in that of the inputs,
        where an output is an input that was handed on. They keep it as long as they are held.

        Raises InvalidRankData where an answer does not give these outputs, or names other memory.
        """
        if answer is AS_ORDERED:  # all of that stands in the order
            return self._as_ordered(rank, positions, region)
        if len(answer.outputs) != len(positions):
            text = f"answered with {len(answer.outputs)} outputs, expected {len(positions)}"
            raise InvalidRankData(rank, text)
        found = {}
        for position, ref in zip(positions, answer.outputs, strict=True):
            offset, shape, dtype = ref.offset, ref.shape, self._dtypes[position]
            end = offset + dtype.itemsize * prod(shape)
            inside = region is not None and region.contains(offset, end)
            owner = region if inside else inputs.region_at(offset, end)  # an input is handed on
            if owner is None or min(shape, default=0) < 0:
                raise InvalidRankData(
                    rank,
                    f"answered with memory that is not its request's: {self._names[position]!r} of "
                    f"shape {list(shape)} at {offset}",
                )
            found[self._names[position]] = owner.array(offset - owner.offset, dtype, shape)
        return found

    def in_order(self, found: Mapping[str, Array]) -> dict[str, Array]:
        """Outputs in the model's order."""
        return {name: found[name] for name in self._names if name in found}

    def _as_ordered(
        self, rank: int, positions: Positions, region: Region | None
    ) -> dict[str, Array]:
        if region is None:
            return {}
        slices = self._slices.get(positions) or self._laid_out(rank, positions)
        return {
            name: region.array(offset, dtype, shape) for name, (offset, dtype, shape, _) in slices
        }

    def _laid_out(self, rank: int, positions: Positions) -> list[tuple[str, TensorSlice]]:
        layout = TensorLayout.declared([self._stored[position] for position in positions])
        if layout is None:  # a rank that keeps to the protocol could not have known where
            text = f"left out the shapes of outputs, which only it can know: {positions}"
            raise InvalidRankData(rank, text)
        names = [self._names[position] for position in positions]
        slices = list(zip(names, layout.parts, strict=True))
        self._slices[positions] = slices
        return slices

    def _size(self, positions: Positions) -> int:
        if positions not in self._sizes:
            known = all(self._stored[position].fixed for position in positions)
            total = sum(aligned(self._bytes(position)) for position in positions) if known else 0
            self._sizes[positions] = total if known else _GUESS
        return self._sizes[positions]

    def _bytes(self, position: int) -> int:
        return self._dtypes[position].itemsize * prod(self._stored[position].shape or ())


def buffer_of(region: Region | None) -> tuple[int, int]:
    """A region as orders name it: offset and size in bytes."""
    return (0, 0) if region is None else (region.offset, region.size)
