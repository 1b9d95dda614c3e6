"""Layout of the arena: the regions of groups and mailboxes, the same on every rank."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from ...job_memory.arena import LINE, PAGE

SLOT_BYTES = 1024 * 1024
"""Bytes of one buffer of a member: one round of a collective carries so much.

The sums of a transformer's layer fit: 200 tokens of 1,280 float32. A second round makes ranks wait
for each other once more, and copies parts of arrays.
"""

_ALIGNED = 64

CHUNK_BYTES = 512 * 1024
"""Bytes of one chunk of a mailbox."""

CHUNKS = 2
"""Chunks of a mailbox that may be full before its sender waits."""


class GroupRegion(msgspec.Struct, frozen=True):
    """One line of words for each member, then two slots for each."""

    start: int
    members: tuple[int, ...]

    def line(self, position: int) -> int:
        """Byte offset of a member's words: its turn, and the signatures of even and odd turns."""
        return self.start + position * LINE

    def slot(self, position: int, parity: int) -> int:
        """Byte offset of the buffer that a member fills in even (0) or odd (1) turns."""
        return (
            _to_page(self.line(len(self.members)))
            + (parity * len(self.members) + position) * SLOT_BYTES
        )

    @property
    def end(self) -> int:
        """The first byte behind the region."""
        return self.slot(len(self.members) - 1, 1) + SLOT_BYTES


class PairRegion(msgspec.Struct, frozen=True):
    """One line of words for the sender, one for the receiver, then two chunks.

    `head` is the byte offset of the sender's words: chunks put in, signatures of even and odd ones.
    """

    head: int

    @property
    def tail(self) -> int:
        """Byte offset of the receiver's word: chunks taken out."""
        return self.head + LINE

    def chunk(self, parity: int) -> int:
        """Byte offset of the buffer of even (0) or odd (1) chunks."""
        return _to_page(self.head + 2 * LINE) + parity * CHUNK_BYTES

    @property
    def end(self) -> int:
        """The first byte behind the region."""
        return self.chunk(1) + CHUNK_BYTES


class CollectiveLayout(msgspec.Struct, frozen=True):
    """All regions of a job, and the bytes that the arena must have for them."""

    groups: dict[tuple[int, ...], GroupRegion]
    pairs: dict[tuple[int, int], PairRegion]
    size: int


def lay_out(
    start: int, groups: Iterable[tuple[int, ...]], pairs: Iterable[tuple[int, int]]
) -> CollectiveLayout:
    """Give every group and every (source, destination) a region of its own, from byte `start` on.

    Repeated ones count once.
    """
    end = start
    group_regions: dict[tuple[int, ...], GroupRegion] = {}
    for members in sorted(set(groups)):
        group_regions[members] = GroupRegion(end, members)
        end = group_regions[members].end
    pair_regions: dict[tuple[int, int], PairRegion] = {}
    for pair in sorted(set(pairs)):
        pair_regions[pair] = PairRegion(end)
        end = pair_regions[pair].end
    return CollectiveLayout(group_regions, pair_regions, end)


def part_step(members: int, itemsize: int) -> int:
    """Elements that each of a slot's parts may have, one part for each member."""
    return SLOT_BYTES // members // _ALIGNED * _ALIGNED // itemsize


def _to_page(offset: int) -> int:
    return -(-offset // PAGE) * PAGE
