"""Who came to which collective of a group, where a library carries the collectives out."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Sequence

from ..arena import PAGE, Arena
from ..futex import order_fence
from .layout import LINE

_CAME, _WENT, _PROCESS, _SIGNATURES, _TIMES = 0, 1, 2, 4, 6
"""Words of a member's line; the last two are pairs, for even and odd turns."""


class Attendance:
    """One member's side of a group's lists, which all members on this host see.

    Members count the group's collectives together (`turn`). `strangers` are the members on other hosts, of
    whom nothing is known.
    """

    def __init__(self, arena: Arena, start: int, members: Sequence[int], rank: int, local: frozenset[int]) -> None:
        self.turn = 0
        self.strangers = [r for r in members if r not in local]
        self._words = arena.words
        lines = {member: (start + position * LINE) // 8 for position, member in enumerate(members)}
        self._mine = lines[rank]
        self._lines = {r: line for r, line in lines.items() if r in local}
        self._others = [(r, line) for r, line in self._lines.items() if r != rank]
        self._words[self._mine + _PROCESS] = os.getpid()

    def arrive(self, signature: int) -> None:
        """Note that this member comes to its next collective, and for what."""
        words, mine = self._words, self._mine
        turn = self.turn + 1
        words[mine + _SIGNATURES + (turn & 1)] = signature
        words[mine + _TIMES + (turn & 1)] = time.monotonic_ns()
        order_fence()
        words[mine + _CAME] = turn
        self.turn = turn

    def leave(self) -> None:
        """Note that this member has done its part."""
        self._words[self._mine + _WENT] = self.turn

    def absent(self) -> list[int]:
        """The others that have not come to this member's latest collective."""
        return [r for r, line in self._others if self._words[line + _CAME] < self.turn]

    def inside(self) -> list[int]:
        """The others that came to it and are not done."""
        words, turn = self._words, self.turn
        return [r for r, line in self._others if words[line + _CAME] >= turn > words[line + _WENT]]

    def process(self, rank: int) -> int:
        """The process of a member, 0 while it is unknown."""
        return self._words[self._lines[rank] + _PROCESS]

    def first_arrival(self) -> int:
        """When the first member came to it, in nanoseconds of the monotonic clock."""
        words, turn = self._words, self.turn
        return min(words[line + _TIMES + (turn & 1)] for line in self._lines.values() if words[line + _CAME] >= turn)

    def differing(self) -> tuple[int, int, int] | None:
        """This member's signature, another member, and its signature, where it came for something else.

        A member that is two turns ahead has overwritten what it came for, and is not asked.
        """
        words, turn = self._words, self.turn
        said = _SIGNATURES + (turn & 1)
        mine = words[self._mine + said]
        for rank, line in self._others:
            came = words[line + _CAME]
            if came - turn in (0, 1):
                order_fence()
                theirs = words[line + said]
                if theirs != mine and words[line + _CAME] <= turn + 1 and self.turn == turn:
                    return mine, rank, theirs
        return None


def open_lists(
    arena: Arena, rank: int, lists: Iterable[tuple[int, ...]], local: frozenset[int],
) -> list[Attendance | None]:
    """Lay out one list for each of `lists` behind what the arena has; None where this rank is no member.

    Every rank of the host passes the same lists.
    """
    start, found = arena.end, []
    wanted = list(lists)
    arena.grow(-(-(start + LINE * sum(map(len, wanted))) // PAGE) * PAGE)
    for members in wanted:
        found.append(Attendance(arena, start, members, rank, local) if rank in members else None)
        start += LINE * len(members)
    return found
