"""Handing words over between ranks: publish one, wait for another's."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from functools import partial, reduce
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

_OFFER_NS, _SHARED_CORE_OFFER_NS = 8_000, 2_000_000
"""How long a rank offers its core to other processes before it sleeps: with a core of its own, and without.

An offer (sched_yield) takes 1 us. A core whose ranks all sleep is halted, and on a virtual machine the wake of a halted
core takes 25 to 100 us: more than most waits of ranks that share cores.
"""

_LONG_OFFER_NS = 1_000_000
"""An offer that takes longer went to a process with work of its own, and the rank makes none for a while: it sleeps.

Linux from 6.18 on gives a whole time slice (3 ms) to the process that takes the offer. If it needs that, its core does
not halt, and the wake of a sleeping rank interrupts it.
"""

_SHORTEST_PAUSE_NS, _LONGEST_PAUSE_NS = 2_000_000, 64_000_000
"""How long a rank makes no offers: twice as long after each long one, until a short one succeeds."""


class Handover(Patience):
    """One rank's side of every meeting: its words, its sleep, its deadline, its last words."""

    call: Call

    def __init__(self, arena: Arena, rank: Rank, timeout: float) -> None:
        super().__init__(arena, rank, timeout)
        self._waiting = waiting_word(rank.rank)
        self._spins: int | None = None
        self._offer_ns = _OFFER_NS
        self._next_offer, self._pause_ns = 0, _SHORTEST_PAUSE_NS

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
        if self._offer_core(partial(self.has_come, word, target)):
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
        for turn in range(self._spins if self._spins is not None else self._decide()):
            if self._any_has_come(awaited):
                return
            if turn >= _AT_ONCE:
                pause()
        if self._offer_core(partial(self._any_has_come, awaited)):
            return
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

    def _offer_core(self, come: Callable[[], bool]) -> bool:
        """Offer the core to other processes until `come()`; False when it is time to sleep."""
        now = begun = time.monotonic_ns()
        if now < self._next_offer:
            return False
        while now - begun < self._offer_ns:
            os.sched_yield()
            last, now = now, time.monotonic_ns()
            if now - last > _LONG_OFFER_NS:
                self._next_offer = now + self._pause_ns
                self._pause_ns = min(2 * self._pause_ns, _LONGEST_PAUSE_NS)
                return come()
            if come():
                self._pause_ns = _SHORTEST_PAUSE_NS
                return True
        return False

    def _decide(self) -> int:
        """How often to look before offering the core: never if ranks share cores, as each needs the others' core."""
        masks = [Progress(self._arena, rank).cores() for rank in range(self._arena.world_size)]
        if sum(map(bool, masks)) < self._rank.local_size:
            return 0
        cores = reduce(or_, masks).bit_count()
        if cores < self._rank.local_size:
            self._spins, self._offer_ns = 0, _SHARED_CORE_OFFER_NS
        else:
            self._spins = _SPINS
        return self._spins
