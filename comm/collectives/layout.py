"""Where groups and mailboxes lie in the arena: the same on every rank, from the same lists."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from ..arena import PAGE

LINE = 128
"""Bytes between words of different writers: two cache lines, as neighbours are fetched in pairs."""

SLOT_BYTES = 512 * 1024
"""One buffer of one member of a group: what one round of a collective carries."""

CHUNK_BYTES = 512 * 1024
"""One of the chunks of a mailbox."""

CHUNKS = 2
"""How many chunks of a mailbox may be full before its sender waits."""


class GroupRegion(msgspec.Struct, frozen=True):
    """One line of words per member, then two slots per member."""

    start: int
    members: tuple[int, ...]

    def line(self, position: int) -> int:
        """Byte offset of a member's words: its turn, and the signatures of even and odd turns."""
        return self.start + position * LINE

    def slot(self, position: int, parity: int) -> int:
        """Byte offset of the buffer that a member fills in even (0) or odd (1) turns."""
        return _to_page(self.line(len(self.members))) + (parity * len(self.members) + position) * SLOT_BYTES

    @property
    def end(self) -> int:
        """The first byte behind the region."""
        return self.slot(len(self.members) - 1, 1) + SLOT_BYTES


class PairRegion(msgspec.Struct, frozen=True):
    """One line of words for the sender, one for the receiver, then two chunks."""

    start: int

    @property
    def head(self) -> int:
        """Byte offset of the sender's words: chunks put in, and the signatures of even and odd chunks."""
        return self.start

    @property
    def tail(self) -> int:
        """Byte offset of the receiver's word: chunks taken out."""
        return self.start + LINE

    def chunk(self, parity: int) -> int:
        """Byte offset of the buffer of even (0) or odd (1) chunks."""
        return _to_page(self.start + 2 * LINE) + parity * CHUNK_BYTES

    @property
    def end(self) -> int:
        """The first byte behind the region."""
        return self.chunk(1) + CHUNK_BYTES


class Layout(msgspec.Struct, frozen=True):
    """All regions of a job, and how long the arena must be for them."""

    groups: dict[tuple[int, ...], GroupRegion]
    pairs: dict[tuple[int, int], PairRegion]
    size: int


def lay_out(start: int, groups: Iterable[tuple[int, ...]], pairs: Iterable[tuple[int, int]]) -> Layout:
    """Give every distinct group and every distinct (source, destination) a region of its own, from byte `start` on."""
    end = start
    group_regions: dict[tuple[int, ...], GroupRegion] = {}
    for members in sorted(set(groups)):
        group_regions[members] = GroupRegion(end, members)
        end = group_regions[members].end
    pair_regions: dict[tuple[int, int], PairRegion] = {}
    for pair in sorted(set(pairs)):
        pair_regions[pair] = PairRegion(end)
        end = pair_regions[pair].end
    return Layout(group_regions, pair_regions, end)


def _to_page(offset: int) -> int:
    return -(-offset // PAGE) * PAGE
