"""Which cores a rank of a user's own script computes on, agreed among the ranks of its host."""

from __future__ import annotations

import os
from collections.abc import Sequence

import msgspec

from ..comm.decoding import decode_payloads
from ..comm.rendezvous import Meeting


class Seat(msgspec.Struct, frozen=True):
    """Where a rank may run: its host, and the cores that its launcher left it."""

    host: str
    cores: tuple[int, ...]


def agree_on_cores(meeting: Meeting) -> tuple[int, ...]:
    """The cores for this rank's threads; empty where the host has more ranks than cores. All ranks call this."""
    mine = Seat(meeting.rank.host, tuple(sorted(os.sched_getaffinity(0))))
    payloads = meeting.exchange(msgspec.msgpack.encode(mine))
    return share(decode_payloads(payloads, Seat), meeting.rank.rank)


def share(seats: Sequence[Seat], rank: int) -> tuple[int, ...]:
    """The cores of one rank: its own where a launcher pinned the ranks apart, else an even part of what they share."""
    host = [r for r, seat in enumerate(seats) if seat.host == seats[rank].host]
    mine = set(seats[rank].cores)
    if all(mine.isdisjoint(seats[r].cores) for r in host if r != rank):
        return seats[rank].cores
    sharing = [r for r in host if set(seats[r].cores) == mine]
    each = len(mine) // len(sharing)
    place = sharing.index(rank)
    return seats[rank].cores[place * each:(place + 1) * each]
