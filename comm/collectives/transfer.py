"""Send, Receive and NeighborExchange: whole messages through mailboxes, chunk by chunk."""

from __future__ import annotations

from collections.abc import Sequence

from .base import Array
from .group_slots import Bytes
from .layout import CHUNK_BYTES
from .mailbox import Inbox, Outbox
from .parts import as_bytes, spans
from .signature import Signer


class Transfer:
    """One Send, Receive or NeighborExchange of a rank's program."""

    def __init__(self, sign: Signer, outboxes: Sequence[Outbox], inboxes: Sequence[Inbox]) -> None:
        self._sign, self._outboxes, self._inboxes = sign, outboxes, inboxes

    def __call__(self, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
        """Send chunk k of everything, then receive chunk k of everything, for each k."""
        sending = [self._message(x) for x in inputs]
        receiving = [self._message(out) for out in outputs]
        for end in (*self._outboxes, *self._inboxes):
            end.begin()
        longest = max((data.size for data, _ in sending + receiving), default=0)
        for lo, hi in spans(longest, CHUNK_BYTES):
            for outbox, (data, signature) in zip(self._outboxes, sending, strict=True):
                if lo < max(data.size, 1):
                    outbox.put(data[lo:hi], signature)
            for inbox, (data, signature) in zip(self._inboxes, receiving, strict=True):
                if lo < max(data.size, 1):
                    inbox.take(data[lo:hi], signature)

    def _message(self, x: Array) -> tuple[Bytes, int]:
        return as_bytes(x), self._sign(x.dtype, x.nbytes)
