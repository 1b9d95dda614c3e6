"""What a broker hands over: descriptors of files, and with the first ones a lease of the receiver's own."""

from __future__ import annotations

import os
from collections.abc import Sequence

from .lease import Lease
from .messages import MOST_FILES, Granted
from .peer import Peer


class Stock:
    """Read-only descriptors, which stay their maker's and only grow. A peer must have its slot."""

    def __init__(self, files: Sequence[int]) -> None:
        self._files = list(files)
        self._next_leases = [Lease.make()]  # made ahead: who asks waits for as little as can be

    def add(self, fds: Sequence[int]) -> None:
        """Add files, which belong together."""
        self._files.extend(fds)

    def welcome(self, peer: Peer) -> None:
        """Hand over a lease of the peer's own, and the first files behind it. Raises PeerGone."""
        fd, peer.lease = self._next_leases.pop()
        try:
            self._send(peer, self._files[:MOST_FILES], [fd])
        finally:
            os.close(fd)
            self._next_leases.append(Lease.make())

    def more(self, peer: Peer, first: int) -> None:
        """Hand over the files from number `first` on. Raises PeerGone."""
        self._send(peer, self._files[first:first + MOST_FILES], [])

    def close(self) -> None:
        """Let go of what was made here, once or again."""
        while self._next_leases:
            os.close(self._next_leases.pop()[0])

    def _send(self, peer: Peer, files: Sequence[int], leases: Sequence[int]) -> None:
        assert peer.slot is not None
        peer.send(Granted(len(files), peer.slot), [*leases, *files])
