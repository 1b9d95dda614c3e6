"""All connections to a broker, and who of them holds the weights."""

from __future__ import annotations

from collections.abc import Iterator

from .peer import Peer

MOST = 1024


class Peers:
    """The connected processes. Several threads come and go here, so every look is at a copy."""

    def __init__(self) -> None:
        self._peers: set[Peer] = set()

    def __iter__(self) -> Iterator[Peer]:
        return iter(list(self._peers))

    def __len__(self) -> int:
        return len(self._peers)

    def add(self, peer: Peer) -> None:
        """A process was let in."""
        self._peers.add(peer)

    def close(self, peer: Peer) -> None:
        """End a connection, once or again."""
        self._peers.discard(peer)
        peer.close()

    def holders(self) -> list[int]:
        """The processes that hold the weights now, ascending."""
        return sorted(peer.pid for peer in self if peer.slot is not None)

    def holding_older(self, version: int) -> list[int]:
        """The processes that compute with a version of the weights before `version`."""
        return sorted(peer.pid for peer in self if peer.lease and peer.lease.holds_older(version))

    def slots(self) -> set[int]:
        """The numbers of those that hold the weights now."""
        return {peer.slot for peer in self if peer.slot is not None}

    def free_slot(self) -> int:
        """A number that none of them has."""
        taken = self.slots()
        return next(number for number in range(MOST) if number not in taken)

    def strangers(self) -> int:
        """How many have not shown yet that they may have the weights."""
        return sum(peer.slot is None for peer in self)

    def of(self, pid: int) -> int:
        """How many connections one process has."""
        return sum(peer.pid == pid for peer in self)

    def next_deadline(self) -> float | None:
        """When the first of those that have not asked yet is late, by the monotonic clock."""
        return min((peer.deadline for peer in self if peer.deadline), default=None)

    def late(self, now: float) -> list[Peer]:
        """Those whose deadline has passed."""
        return [peer for peer in self if peer.deadline and peer.deadline <= now]
