"""Sleepers: the ranks of a ring that sleep until an order comes, and wake each other.

They are a tree: the orchestrator wakes the first four, and rank r those from 4 (r + 1) on. Each
sleeps on a word of its own, so that a rank is woken once for an order, and by one process.
"""

from __future__ import annotations

from ..job_memory import futex
from .ring_layout import WORD

_WOKEN = 4
"""How many ranks a process wakes: a wake takes 3 us."""

ORCHESTRATOR = -1
"""The parent of the first ranks in the tree."""


class Sleepers:
    """One process's view. The word of a rank is the number of its order plus one."""

    def __init__(self, words: memoryview, address: int) -> None:
        """`words`, one for each rank, lie at `address`."""
        self._words = words
        self._address = address

    def announce(self, rank: int, number: int) -> None:
        """Say that `rank` is about to sleep, unless it now sees that the order was given."""
        self._words[rank] = number + 1
        futex.full_fence()

    def sleep(self, rank: int, number: int) -> None:
        """Sleep until woken, at most a second."""
        futex.wait_long(self._address + rank * WORD, number + 1)

    def wait_for(self, number: int) -> bool:
        """Whether some rank sleeps for the order `number`, or is about to."""
        return number + 1 in self._words

    def wake(self, number: int, above: int = ORCHESTRATOR) -> None:
        """Wake the ranks below `above` that sleep for the order `number`, once it was given.

        Those below a rank that is awake are woken here: it may be late to look for the order.
        """
        words, mark = self._words, number + 1
        if mark not in words:
            return
        below = [*self._below(above)]
        for rank in below:
            if words[rank] == mark:
                words[rank] = 0
                futex.wake(self._address + rank * WORD, 1)
            else:
                below += self._below(rank)

    def _below(self, above: int) -> range:
        first = _WOKEN * (above + 1)
        return range(first, min(first + _WOKEN, len(self._words)))
