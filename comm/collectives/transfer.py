"""Send, Receive and NeighborExchange: whole messages through mailboxes, chunk by chunk."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence

from .base import Array
from .group_slots import Bytes
from .handover import Handover
from .layout import CHUNK_BYTES
from .mailbox import End, Inbox, Outbox
from .parts import as_bytes, spans
from .signature import Signer

Chunks = deque[tuple[Bytes, int]]


class Transfer:
    """One Send, Receive or NeighborExchange of a rank's program.

    Nothing waits for anything else: chunks move in whichever direction they can, as the other ranks may move theirs
    in any order. Messages to one rank, and those from one, keep their order.
    """

    def __init__(self, sign: Signer, handover: Handover, outboxes: Sequence[Outbox],
                 inboxes: Sequence[Inbox]) -> None:
        self._sign, self._handover = sign, handover
        self._outboxes, self._inboxes = outboxes, inboxes

    def __call__(self, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
        """Move all inputs out and all outputs in."""
        left: dict[End, Chunks] = {}
        self._queue(left, self._outboxes, inputs)
        self._queue(left, self._inboxes, outputs)
        for end in left:
            end.begin()
        while True:
            moved = [_move(self._handover, end, chunks) for end, chunks in left.items()]
            left = {end: chunks for end, chunks in left.items() if chunks}
            if not left:
                return
            if not any(moved):
                self._wait(list(left))

    def _queue(self, left: dict[End, Chunks], ends: Iterable[End], arrays: Sequence[Array]) -> None:
        for end, x in zip(ends, arrays, strict=True):
            data, signature = as_bytes(x), self._sign(x.dtype, x.nbytes)
            left.setdefault(end, deque()).extend((data[lo:hi], signature) for lo, hi in spans(data.size, CHUNK_BYTES))

    def _wait(self, ends: Sequence[End]) -> None:
        if len(ends) == 1:
            self._handover.wait(*ends[0].awaited, ends[0])
        else:
            # Sleep on what comes last, an inbox if there is one: who has nothing to take here sends.
            self._handover.wait_any([end.awaited for end in reversed(ends)], _Ends(ends))


class _Ends:
    """Several mailboxes as one place to wait at."""

    def __init__(self, ends: Sequence[End]) -> None:
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


def _move(handover: Handover, end: End, chunks: Chunks) -> bool:
    """Move what can be moved without waiting; whether anything was."""
    before = len(chunks)
    while chunks and handover.has_come(*end.awaited):
        end.move(*chunks.popleft())
    return len(chunks) < before
