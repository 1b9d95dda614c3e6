"""The collectives of all ranks carried out in thought, to see whether they would come to an end."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Sequence

from ..comm.collectives.base import ONE_WAY
from ..comm.collectives.room import Room
from .fingerprint import Entry, Fingerprint


def rehearse(prints: Sequence[Fingerprint], room: Room | None) -> list[tuple[Fingerprint, Entry]]:
    """The ranks that would wait for ever, with the collectives that they would wait in.

    `room` is what a Send may leave behind; None: everything. `prints` is in rank order, and each message that is
    sent is received.
    """
    rehearsal = _Rehearsal(prints, room)
    while any([rehearsal.advance(one) for one in prints]):
        pass
    return [(one, entry) for one in prints if (entry := rehearsal.current(one.rank)) is not None]


class _Rehearsal:
    """Where each rank is, and what is under way."""

    def __init__(self, prints: Sequence[Fingerprint], room: Room | None) -> None:
        self._prints, self._room = prints, room
        self._at = [0] * len(prints)
        self._posted, self._received = [False] * len(prints), [False] * len(prints)
        self._mail: defaultdict[tuple[int, int], deque[int]] = defaultdict(deque)

    def current(self, rank: int) -> Entry | None:
        """The collective that a rank is in."""
        entries = self._prints[rank].entries
        return entries[self._at[rank]] if self._at[rank] < len(entries) else None

    def advance(self, one: Fingerprint) -> bool:
        """Take a rank as far as it comes; whether anything happened."""
        moved = False
        while (entry := self.current(one.rank)) is not None and self._step(one.rank, entry):
            moved = True
        return moved

    def _step(self, rank: int, entry: Entry) -> bool:
        return self._message(rank, entry) if entry.call.kind in ONE_WAY else self._group(entry)

    def _message(self, rank: int, entry: Entry) -> bool:
        """Send, receive, and go on when what is left behind has room: one of these per call."""
        if not self._posted[rank]:
            self._posted[rank] = True
            for peer, operand in zip(entry.destinations, entry.sends, strict=True):
                self._mail[rank, peer].append(self._room.taken_by(operand.nbytes) if self._room else 0)
            return True
        if not self._received[rank]:
            self._received[rank] = self._receive(rank, entry.sources)
            return self._received[rank]
        if self._room and any(sum(self._mail[rank, p]) > self._room.chunks for p in entry.destinations):
            return False
        self._posted[rank] = self._received[rank] = False
        self._at[rank] += 1
        return True

    def _receive(self, rank: int, sources: Sequence[int]) -> bool:
        """Take one message from each of the sources if all are there."""
        if any(len(self._mail[source, rank]) < sources.count(source) for source in sources):
            return False
        for source in sources:
            self._mail[source, rank].popleft()
        return True

    def _group(self, entry: Entry) -> bool:
        """Pass a collective of a group, with all its members, if they have come to it."""
        members = entry.call.group.ranks
        for rank in members:
            other = self.current(rank)
            if other is None or other.call.kind in ONE_WAY or set(other.call.group.ranks) != set(members):
                return False
        for rank in members:
            self._at[rank] += 1
        return True
