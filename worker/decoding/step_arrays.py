"""Arrays of a step: the indexes by which a step graph gathers the rows of each query."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...comm.serving.steps import DecoderStep, Int32, numbers_of
from ...compiler.decoders.step_graph import (
    KEPT_ROWS,
    LAST,
    PLACES,
    POSITIONS,
    QUERY_LENGTHS,
    ROWS,
    TOKENS,
    WANTED,
)

_BLOCK = 8
"""A divisor of the rows of a block. onnxruntime's blocks have twice the size of a head, where the
processor's cache is not small (`GQAAttentionBase` of its source).
"""


class StepShape(NamedTuple):
    """The sizes of a step's arrays: slots in use, rows of the longest query, new tokens, and tokens
    that are wanted.
    """

    slots: int
    rows: int
    tokens: int
    wanted: int


class StepNumbers(NamedTuple):
    """A step in numbers per slot, from slot 0 to the last one in use: tokens that the slot holds,
    and new ones. Slots without a sequence have none.
    """

    lengths: Int32
    counts: Int32
    tokens: Int32
    wanted: Int32

    @classmethod
    def of(cls, step: DecoderStep) -> StepNumbers:
        """The numbers of an order."""
        slots = numbers_of(step.slots)
        lengths, counts = np.zeros((2, int(slots[-1]) + 1), np.int32)
        lengths[slots], counts[slots] = numbers_of(step.lengths), numbers_of(step.counts)
        return cls(lengths, counts, numbers_of(step.tokens), numbers_of(step.wanted))

    @property
    def shape(self) -> StepShape:
        """The sizes of its arrays."""
        rows = int((self.counts + self.beside).max())
        return StepShape(len(self.counts), rows, len(self.tokens), len(self.wanted))

    @property
    def beside(self) -> Int32:
        """The row that each query has besides its new ones, 0 or 1.

        Attention computes the rows of a query in blocks, and a block of one row rounds differently.
        """
        beside: Int32 = (self.counts % _BLOCK == 1).astype(np.int32)
        return beside

    def write(self, arrays: dict[str, NDArray[np.generic]]) -> None:
        """Write the inputs of the step graph into arrays of its shape.

        Where a query has one row besides its new ones, that is the previous row of the sequence;
        without a previous row the last new one comes twice, and the second is not used: what it
        leaves behind in the memory of keys and values lies beyond the end of the sequence.
        """
        counts, beside = self.counts, self.beside
        slots, tokens = len(counts), len(self.tokens)
        before = beside * (self.lengths > 0)
        starts = np.cumsum(counts, dtype=np.int64) - counts
        rows = arrays[ROWS]
        columns = np.arange(rows.shape[1])
        found = slots + starts[:, None] + columns - before[:, None]
        kept = np.flatnonzero(before)
        found[kept, 0] = kept
        doubled = np.flatnonzero(beside - before)
        found[doubled, counts[doubled]] = slots + starts[doubled] + counts[doubled] - 1
        rows[...] = found.clip(0, slots + tokens - 1)
        slot_of = np.repeat(np.arange(slots), counts)
        within = np.arange(tokens) - starts[slot_of]
        arrays[PLACES][...] = slot_of * rows.shape[1] + before[slot_of] + within
        new = slots + starts + counts - 1
        arrays[KEPT_ROWS][...] = np.where(counts > 0, new, np.arange(slots))
        ends = self.lengths + counts + (beside - before)
        arrays[LAST][...] = np.where(counts > 0, ends - 1, 0)
        arrays[QUERY_LENGTHS][...] = counts + beside
        arrays[TOKENS][0] = self.tokens
        arrays[WANTED][...] = self.wanted
        if POSITIONS in arrays:
            arrays[POSITIONS][0] = self.lengths[slot_of] + within
