"""Mailboxes: messages between two ranks, in chunks of which two may be under way."""

from __future__ import annotations

from collections.abc import Sequence

from ...job_memory.arena import Arena, Cause, waiting_word
from ...job_memory.futex import order_fence
from ...job_memory.progress import Progress
from ..signature import describe
from .group_slots import Bytes
from .layout import CHUNK_BYTES, CHUNKS, PairRegion
from .shared_word import SharedWord


class MailboxEnd:
    """Either end of a mailbox: the own word, the other end's word, and the chunks; a WaitPoint."""

    sends: bool
    free: int
    """Chunks that this end may move before the other end moves any."""

    def __init__(
        self, arena: Arena, region: PairRegion, shared_word: SharedWord, rank: int, peer: int
    ) -> None:
        self._arena = arena
        self._words = arena.words
        self._shared_word = shared_word
        self._head = region.head // 8
        self._mine = (region.head if self.sends else region.tail) // 8
        self._theirs = (region.tail if self.sends else region.head) // 8
        self._rank = rank
        self._peer = peer
        self._readers = [waiting_word(peer)]
        self._chunks = [
            arena.data[region.chunk(p) : region.chunk(p) + CHUNK_BYTES] for p in range(CHUNKS)
        ]
        self._first_turn = 0
        self.turn = 0

    @property
    def awaited(self) -> tuple[int, int]:
        """A word, and the value that it must reach before the next chunk can be moved."""
        return self._theirs, self.turn + 1 - self.free

    def move(self, data: Bytes, signature: int) -> None:
        """Move one chunk to or from `data`, after `awaited` has been reached."""
        raise NotImplementedError

    def begin(self) -> None:
        """Begin a new message with the next chunk."""
        self._first_turn = self.turn + 1

    def missing(self) -> Sequence[int]:
        """The rank at the other end."""
        return [self._peer]

    def entered(self, rank: int) -> bool:
        """Whether the other end has handled any chunk of this message."""
        return self._words[self._theirs] >= self._first_turn

    def first_entry(self) -> int:
        """When this end entered."""
        return Progress(self._arena, self._rank).entered_at


class Outbox(MailboxEnd):
    """The end of the sender; it waits only while both chunks are full."""

    sends = True
    free = CHUNKS

    def move(self, data: Bytes, signature: int) -> None:
        """See MailboxEnd."""
        self.turn = turn = self.turn + 1
        order_fence()
        self._chunks[turn & 1][: data.size] = data
        self._words[self._head + 1 + (turn & 1)] = signature
        self._shared_word.publish(self._mine, turn, self._readers)


class Inbox(MailboxEnd):
    """The end of the receiver."""

    sends = False
    free = 0

    def move(self, data: Bytes, signature: int) -> None:
        """See MailboxEnd."""
        self.turn = turn = self.turn + 1
        order_fence()
        said = self._words[self._head + 1 + (turn & 1)]
        if said != signature:
            self._complain(said, signature)
        data[...] = self._chunks[turn & 1][: data.size]
        self._shared_word.publish(self._mine, turn, self._readers)

    def _complain(self, said: int, signature: int) -> None:
        """Fail because the sender sent another message than this end expects."""
        entered = Progress(self._arena, self._rank).read().entered
        self._shared_word.fail(
            self._peer,
            Cause.MISMATCH,
            (
                f"rank {self._rank} in {entered} expects from rank {self._peer}: "
                f"{describe(signature)}, but rank {self._peer} sent: {describe(said)} (rank "
                f"{self._peer} {Progress(self._arena, self._peer).read()}). Check that all ranks "
                "run shards of one export"
            ),
        )
