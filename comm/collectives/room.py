"""How much of what a rank sends may be under way before its Receive is there, so that the Send need not wait."""

from __future__ import annotations

import msgspec

from .choose import SHARED_MEMORY
from .layout import CHUNK_BYTES, CHUNKS


class Room(msgspec.Struct, frozen=True):
    """Between two ranks, in one direction: so many chunks; each message begins with a chunk of its own."""

    chunks: int

    def taken_by(self, nbytes: int | None) -> int:
        """How many chunks a message takes, at most one more than there are; a size that is not known takes that."""
        most = self.chunks + 1
        return most if nbytes is None else min(most, max(1, -(-nbytes // CHUNK_BYTES)))

    @property
    def exception(self) -> str:
        """What may stay, as the end of the sentence "a Send waits for its Receive"."""
        return f" unless what is under way fits into {self.chunks} chunks of {CHUNK_BYTES} bytes" if self.chunks else ""


def room_of(implementation: str) -> Room:
    """The room of collectives by name: MPI and torch.distributed promise none, though small messages may pass."""
    return Room(CHUNKS if implementation == SHARED_MEMORY else 0)
