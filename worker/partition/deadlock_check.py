"""The deadlock check: a simulation of the collectives of all ranks."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Sequence

from ...comm.collective_call import ONE_WAY
from ...comm.collectives.backend import SendCapacity
from .fingerprint import Fingerprint, ShardCollective


def find_deadlock(
    prints: Sequence[Fingerprint], room: SendCapacity | None
) -> list[tuple[Fingerprint, ShardCollective]]:
    """The ranks that would wait forever, each with the collective in which it would wait.

    `room` is the number of chunks that a Send may leave behind; None: no limit. `prints` is in rank
    order, and has a receiver for each message.
    """
    simulation = _Simulation(prints, room)
    while any([simulation.advance(one) for one in prints]):
        pass
    return [(one, entry) for one in prints if (entry := simulation.current(one.rank)) is not None]


class _Simulation:
    """The position of each rank, and the messages under way."""

    def __init__(self, prints: Sequence[Fingerprint], room: SendCapacity | None) -> None:
        self._prints = prints
        self._room = room
        self._at = [0] * len(prints)
        self._posted = [False] * len(prints)
        self._received = [False] * len(prints)
        self._mail: defaultdict[tuple[int, int], deque[int]] = defaultdict(deque)

    def current(self, rank: int) -> ShardCollective | None:
        """The collective that a rank has come to; None at the end."""
        entries = self._prints[rank].entries
        return entries[self._at[rank]] if self._at[rank] < len(entries) else None

    def advance(self, one: Fingerprint) -> bool:
        """Take a rank as far as possible; return whether it moved."""
        moved = False
        while (entry := self.current(one.rank)) is not None and (
            self._message(one.rank, entry) if entry.call.kind in ONE_WAY else self._group(entry)
        ):
            moved = True
        return moved

    def _message(self, rank: int, entry: ShardCollective) -> bool:
        """Send, receive, or go on once the messages left behind have room: one per call."""
        if not self._posted[rank]:
            self._posted[rank] = True
            for peer, operand in zip(entry.destinations, entry.sends, strict=True):
                self._mail[rank, peer].append(
                    self._room.taken_by(operand.nbytes) if self._room else 0
                )
            return True
        if not self._received[rank]:
            self._received[rank] = self._receive(rank, entry.sources)
            return self._received[rank]
        if self._room and any(
            sum(self._mail[rank, p]) > self._room.chunks for p in entry.destinations
        ):
            return False
        self._posted[rank] = self._received[rank] = False
        self._at[rank] += 1
        return True

    def _receive(self, rank: int, sources: Sequence[int]) -> bool:
        """Take one message from each of the sources, if all have arrived."""
        if any(len(self._mail[source, rank]) < sources.count(source) for source in sources):
            return False
        for source in sources:
            self._mail[source, rank].popleft()
        return True

    def _group(self, entry: ShardCollective) -> bool:
        """Take all members past a collective of their group, if all have come to it."""
        members = entry.call.group.ranks
        for rank in members:
            other = self.current(rank)
            if (
                other is None
                or other.call.kind in ONE_WAY
                or set(other.call.group.ranks) != set(members)
            ):
                return False
        for rank in members:
            self._at[rank] += 1
        return True
