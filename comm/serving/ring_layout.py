"""Layout of a ring: tells where orders, states and answers lie in the memory of a replica."""

from __future__ import annotations

from dataclasses import dataclass

from ..request_memory.free_list import whole_pages

PAGE = 4096
TEXT = 1 << 17
"""Address space of one order or answer; pages that are not touched cost nothing."""

WORD = 8


@dataclass(frozen=True, slots=True)
class RingLayout:
    """Page 0, a table with a word per rank, and for each of `depth` slots: the order, another such
    table, and per rank a page of words and the answer. All places are indices of words.
    """

    world_size: int
    depth: int

    @property
    def table(self) -> int:
        """The first word of the table behind page 0."""
        return PAGE // WORD

    def order(self, slot: int) -> int:
        """The first word of the order of a slot."""
        return (PAGE + self._table_bytes + slot * self._slot_bytes) // WORD

    def states(self, slot: int) -> int:
        """The first word of the table of a slot."""
        return self.order(slot) + TEXT // WORD

    def line(self, slot: int, rank: int) -> int:
        """The first word of a rank in a slot."""
        before = self._table_bytes + rank * (PAGE + TEXT)
        return self.states(slot) + before // WORD

    @property
    def size(self) -> int:
        """Bytes of all."""
        return self.order(self.depth) * WORD

    @property
    def _table_bytes(self) -> int:
        return whole_pages(self.world_size * WORD)

    @property
    def _slot_bytes(self) -> int:
        return TEXT + self._table_bytes + self.world_size * (PAGE + TEXT)
