"""Arrival table of a group: notes in the arena which members of this host came to a collective."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Sequence

from ..job_memory.arena import LINE, PAGE, Arena
from ..job_memory.futex import order_fence

_ARRIVED, _LEFT, _PROCESS, _SIGNATURES, _TIMES = 0, 1, 2, 4, 6
"""Words of a member's line; the last two are pairs, for even and odd turns."""


class ArrivalTable:
    """One member's view of the table of a group.

    All members count the collectives of the group (`turn`). `unseen` are the members on other
    hosts, of which the table says nothing.
    """

    def __init__(
        self, arena: Arena, start: int, members: Sequence[int], rank: int, local: frozenset[int]
    ) -> None:
        self.turn = 0
        self.unseen = [r for r in members if r not in local]
        self._words = arena.words
        lines = {member: (start + position * LINE) // 8 for position, member in enumerate(members)}
        self._mine = lines[rank]
        self._lines = {r: line for r, line in lines.items() if r in local}
        self._others = [(r, line) for r, line in self._lines.items() if r != rank]
        self._words[self._mine + _PROCESS] = os.getpid()

    @classmethod
    def open(
        cls, arena: Arena, rank: int, members: tuple[int, ...], local: frozenset[int]
    ) -> ArrivalTable:
        """Append one table to the arena; `rank` is a member. All ranks of the host call this."""
        start = arena.end
        arena.grow(-(-(start + LINE * len(members)) // PAGE) * PAGE)
        return cls(arena, start, members, rank, local)

    def arrive(self, signature: int) -> None:
        """Note that this member comes to its next collective, with its signature."""
        words, mine = self._words, self._mine
        turn = self.turn + 1
        words[mine + _SIGNATURES + (turn & 1)] = signature
        words[mine + _TIMES + (turn & 1)] = time.monotonic_ns()
        order_fence()
        words[mine + _ARRIVED] = turn
        self.turn = turn

    def leave(self) -> None:
        """Note that this member has done its part."""
        self._words[self._mine + _LEFT] = self.turn

    def absent(self) -> list[int]:
        """The other members that have not come to this member's latest collective."""
        return [r for r, line in self._others if self._words[line + _ARRIVED] < self.turn]

    def inside(self) -> list[int]:
        """The other members that came to it and have not left."""
        words, turn = self._words, self.turn
        return [
            r for r, line in self._others if words[line + _ARRIVED] >= turn > words[line + _LEFT]
        ]

    def process(self, rank: int) -> int:
        """The process id of a member; 0 while it is unknown."""
        return self._words[self._lines[rank] + _PROCESS]

    def first_arrival(self) -> int:
        """When the first member came to it, in nanoseconds of the monotonic clock."""
        words, turn = self._words, self.turn
        return min(
            words[line + _TIMES + (turn & 1)]
            for line in self._lines.values()
            if words[line + _ARRIVED] >= turn
        )

    def differing(self) -> tuple[int, int, int] | None:
        """This member's signature, another member, and its different signature; None: all agree.

        A member that is two turns ahead has overwritten its signature, and is left out.
        """
        words, turn = self._words, self.turn
        signature_word = _SIGNATURES + (turn & 1)
        mine = words[self._mine + signature_word]
        for rank, line in self._others:
            arrived = words[line + _ARRIVED]
            if arrived - turn in (0, 1):
                order_fence()
                theirs = words[line + signature_word]
                if theirs != mine and words[line + _ARRIVED] <= turn + 1 and self.turn == turn:
                    return mine, rank, theirs
        return None


def open_arrival_tables(
    arena: Arena, rank: int, groups: Iterable[tuple[int, ...]], local: frozenset[int]
) -> list[ArrivalTable | None]:
    """Append a table for each of `groups` to the arena; None where this rank is not a member.

    All ranks of the host pass the same groups.
    """
    start = arena.end
    found = []
    wanted = list(groups)
    arena.grow(-(-(start + LINE * sum(map(len, wanted))) // PAGE) * PAGE)
    for members in wanted:
        found.append(ArrivalTable(arena, start, members, rank, local) if rank in members else None)
        start += LINE * len(members)
    return found
