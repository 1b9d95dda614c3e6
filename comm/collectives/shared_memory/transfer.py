"""Transfers: Send, Receive and NeighborExchange, as messages through mailboxes."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence

from ..parts import Array, as_bytes, spans
from ..signature import Signer
from .group_slots import Bytes
from .layout import CHUNK_BYTES
from .mailbox import Inbox, MailboxEnd, Outbox
from .shared_word import SharedWord

Chunks = deque[tuple[Bytes, int]]


class Transfer:
    """One Send, Receive or NeighborExchange of a rank's program.

    Chunks move in any direction that is free, as the other ranks may move theirs in any order.
    Messages to one rank keep their order, and so do those from one.
    """

    def __init__(
        self,
        sign: Signer,
        shared_word: SharedWord,
        outboxes: Sequence[Outbox],
        inboxes: Sequence[Inbox],
    ) -> None:
        self._sign = sign
        self._shared_word = shared_word
        self._outboxes = outboxes
        self._inboxes = inboxes

    def __call__(self, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
        """Send all inputs and receive all outputs."""
        left: dict[MailboxEnd, Chunks] = {}
        self._queue(left, self._outboxes, inputs)
        self._queue(left, self._inboxes, outputs)
        for end in left:
            end.begin()
        while True:
            moved = [_move(self._shared_word, end, chunks) for end, chunks in left.items()]
            left = {end: chunks for end, chunks in left.items() if chunks}
            if not left:
                return
            if not any(moved):
                self._wait(list(left))

    def _queue(
        self, left: dict[MailboxEnd, Chunks], ends: Iterable[MailboxEnd], arrays: Sequence[Array]
    ) -> None:
        for end, x in zip(ends, arrays, strict=True):
            data, signature = as_bytes(x), self._sign(x.dtype, x.nbytes)
            left.setdefault(end, deque()).extend(
                (data[lo:hi], signature) for lo, hi in spans(data.size, CHUNK_BYTES)
            )

    def _wait(self, ends: Sequence[MailboxEnd]) -> None:
        if len(ends) == 1:
            self._shared_word.wait(*ends[0].awaited, ends[0])
        else:
            # Sleep on the last end, an inbox if there is one: without anything to receive, a rank
            # sends.
            self._shared_word.wait_any([end.awaited for end in reversed(ends)], _Ends(ends))


class _Ends:
    """Several mailboxes as one WaitPoint."""

    def __init__(self, ends: Sequence[MailboxEnd]) -> None:
        self._ends = ends

    def missing(self) -> Sequence[int]:
        """The ranks at the other ends."""
        return sorted({rank for end in self._ends for rank in end.missing()})

    def entered(self, rank: int) -> bool:
        """Whether a rank has handled any chunk."""
        return any(end.entered(rank) for end in self._ends if rank in end.missing())

    def first_entry(self) -> int:
        """When this rank entered."""
        return self._ends[0].first_entry()


def _move(shared_word: SharedWord, end: MailboxEnd, chunks: Chunks) -> bool:
    """Move the chunks that need no waiting; whether there was one."""
    before = len(chunks)
    while chunks and shared_word.has_come(*end.awaited):
        end.move(*chunks.popleft())
    return len(chunks) < before
