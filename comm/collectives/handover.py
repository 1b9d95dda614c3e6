"""Handing words over between ranks: publish one, wait for another's."""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import reduce
from operator import or_

from .. import futex
from ..arena import Arena, waiting_word
from ..pause import pause
from ..progress import Progress
from ..rank import Rank
from .base import Call
from .patience import Patience, Place

_SPINS = 240
"""Looks, with pauses between all but the first, before the core is offered to others: about 0.1 ms."""

_AT_ONCE = 30

_YIELDS = 8
"""Offers of the core to whoever is late, before sleeping; where cores are shared this costs half a sleep."""


class Handover(Patience):
    """One rank's side of every meeting: its words, its sleep, its deadline, its last words."""

    call: Call

    def __init__(self, arena: Arena, rank: Rank, timeout: float) -> None:
        super().__init__(arena, rank, timeout)
        self._waiting = waiting_word(rank.rank)
        self._spins: int | None = None

    def publish(self, word: int, value: int, readers: Sequence[int]) -> None:
        """Set `word` and wake those who sleep on it; `readers` are the waiting words of who might."""
        words = self._words
        futex.order_fence()
        words[word] = value
        futex.full_fence()
        for reader in readers:
            if words[reader] == word * 8:
                futex.wake(self._arena.address + word * 8)
                break

    def wait(self, word: int, target: int, place: Place) -> None:
        """Return once `word` has reached `target`; raises when the job is aborted or the deadline passes."""
        words = self._words
        for turn in range(self._spins if self._spins is not None else self._decide()):
            if words[word] >= target:
                return
            if turn >= _AT_ONCE:
                pause()
        for _ in range(_YIELDS):
            os.sched_yield()
            if words[word] >= target:
                return
        words[self._waiting] = word * 8
        try:
            self._sleep(word, target, place)
        finally:
            words[self._waiting] = 0

    def _sleep(self, word: int, target: int, place: Place) -> None:
        words, address = self._words, self._arena.address + word * 8
        while (value := words[word]) < target:
            self.check_abort()
            if not futex.wait(address, value) and words[word] < target:
                self.check_missing(str(self.call), place)

    def has_come(self, word: int, target: int) -> bool:
        """Whether `word` has reached `target`."""
        return self._words[word] >= target

    def wait_any(self, awaited: Sequence[tuple[int, int]], place: Place) -> None:
        """As `wait`, for the first of several words. Sleeps on the first: another's coming may be seen 20 ms late."""
        spins = self._spins if self._spins is not None else self._decide()
        for turn in range(spins + _YIELDS):
            if self._any_has_come(awaited):
                return
            if turn >= spins:
                os.sched_yield()
            elif turn >= _AT_ONCE:
                pause()
        self._words[self._waiting] = awaited[0][0] * 8
        try:
            self._sleep_any(awaited, place)
        finally:
            self._words[self._waiting] = 0

    def _sleep_any(self, awaited: Sequence[tuple[int, int]], place: Place) -> None:
        words, first = self._words, awaited[0][0]
        while True:
            value = words[first]
            if self._any_has_come(awaited):
                return
            self.check_abort()
            if not futex.wait(self._arena.address + first * 8, value) and not self._any_has_come(awaited):
                self.check_missing(str(self.call), place)

    def _any_has_come(self, awaited: Sequence[tuple[int, int]]) -> bool:
        return any(self.has_come(word, target) for word, target in awaited)

    def _decide(self) -> int:
        """How long to spin: not at all when there are more ranks than cores, as they need each other's."""
        masks = [Progress(self._arena, rank).cores() for rank in range(self._arena.world_size)]
        if sum(map(bool, masks)) < self._rank.local_size:
            return 0
        cores = reduce(or_, masks).bit_count()
        self._spins = _SPINS if cores >= self._rank.local_size else 0
        return self._spins
