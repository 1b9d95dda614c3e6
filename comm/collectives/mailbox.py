"""Point-to-point over a mailbox of two chunks: a small message leaves at once, a long one chunk by chunk."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from ..arena import Arena, Cause, waiting_word
from ..futex import order_fence
from ..progress import Progress
from .group_slots import Bytes
from .handover import Handover
from .layout import CHUNK_BYTES, CHUNKS, PairRegion
from .signature import describe


class End(Protocol):
    """Either end of a mailbox, as who moves messages sees it; also a Place to wait at."""

    @property
    def awaited(self) -> tuple[int, int]:
        """The word that must have come how far before the next chunk can be moved."""

    def begin(self) -> None:
        """A new message begins with the next chunk."""

    def move(self, data: Bytes, signature: int) -> None:
        """Move one chunk to or from `data`; `awaited` must have come."""

    def missing(self) -> Sequence[int]:
        """See Place."""

    def entered(self, rank: int) -> bool:
        """See Place."""

    def first_entry(self) -> int:
        """See Place."""


class _End:
    """What both ends of a mailbox have: their own word, the other's word, and the chunks."""

    def __init__(
        self, arena: Arena, region: PairRegion, handover: Handover, *, mine: int, theirs: int,
        rank: int, peer: int,
    ) -> None:
        self._arena, self._words, self._handover = arena, arena.words, handover
        self._head = region.head // 8
        self._mine, self._theirs = mine // 8, theirs // 8
        self._rank, self._peer = rank, peer
        self._readers = [waiting_word(peer)]
        self._chunks = [arena.data[region.chunk(p): region.chunk(p) + CHUNK_BYTES] for p in range(CHUNKS)]
        self._first_turn = 0
        self.turn = 0

    def begin(self) -> None:
        """A new message begins with the next chunk."""
        self._first_turn = self.turn + 1

    def missing(self) -> Sequence[int]:
        """The other end."""
        return [self._peer]

    def entered(self, rank: int) -> bool:
        """Whether the other end has handled any chunk of this message."""
        return self._words[self._theirs] >= self._first_turn

    def first_entry(self) -> int:
        """When this end entered."""
        return Progress(self._arena, self._rank).entered_at


class Outbox(_End):
    """The sender's end; waits only while both chunks are full."""

    def __init__(
        self, arena: Arena, region: PairRegion, handover: Handover, source: int, destination: int,
    ) -> None:
        super().__init__(arena, region, handover, mine=region.head, theirs=region.tail,
                         rank=source, peer=destination)

    @property
    def awaited(self) -> tuple[int, int]:
        """See End."""
        return self._theirs, self.turn + 1 - CHUNKS

    def move(self, data: Bytes, signature: int) -> None:
        """See End."""
        self.turn = turn = self.turn + 1
        order_fence()
        self._chunks[turn & 1][: data.size] = data
        self._words[self._head + 1 + (turn & 1)] = signature
        self._handover.publish(self._mine, turn, self._readers)


class Inbox(_End):
    """The receiver's end."""

    def __init__(
        self, arena: Arena, region: PairRegion, handover: Handover, source: int, destination: int,
    ) -> None:
        super().__init__(arena, region, handover, mine=region.tail, theirs=region.head,
                         rank=destination, peer=source)

    @property
    def awaited(self) -> tuple[int, int]:
        """See End."""
        return self._theirs, self.turn + 1

    def move(self, data: Bytes, signature: int) -> None:
        """See End."""
        self.turn = turn = self.turn + 1
        order_fence()
        said = self._words[self._head + 1 + (turn & 1)]
        if said != signature:
            self._complain(said, signature)
        data[...] = self._chunks[turn & 1][: data.size]
        self._handover.publish(self._mine, turn, self._readers)

    def _complain(self, said: int, signature: int) -> None:
        """Report that the sender sent something else."""
        entered = Progress(self._arena, self._rank).read().entered
        self._handover.fail(self._peer, Cause.MISMATCH, (
            f"rank {self._rank} in {entered} expects from rank {self._peer}: {describe(signature)}, "
            f"but rank {self._peer} sent: {describe(said)} "
            f"(rank {self._peer} {Progress(self._arena, self._peer).read()}). "
            "Check that all ranks run shards of one export"))
