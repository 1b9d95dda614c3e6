"""Shared words: one rank publishes a word, another one waits for it."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from functools import partial, reduce
from operator import or_

from ...collective_call import Call
from ...job.rank import Rank
from ...job_memory import futex
from ...job_memory.arena import Arena, waiting_word
from ...job_memory.cpu_relax import cpu_relax
from ...job_memory.progress import Progress
from ..collective_deadline import CollectiveDeadline, WaitPoint

_SPINS = 240
"""Looks before the core is offered to other processes, about 0.1 ms; all but the first pause."""

_AT_ONCE = 30

_OFFER_NS, _SHARED_CORE_OFFER_NS = 400_000, 2_000_000
"""Nanoseconds for which a rank offers its core before it sleeps: an own core, a shared one.

An offer (sched_yield) takes 1 us. A core whose ranks all sleep is halted. On a virtual machine the
wake of a halted core takes 25 to 100 us, more than most waits of ranks that share cores. A
collective of ResNet-50 on two ranks takes 0.5 ms in the mean, and 0.2 ms of that is work.
"""

_LONG_OFFER_NS = 1_000_000
"""A longer offer went to a process with work of its own; then the rank sleeps for a while.

Linux from 6.18 on gives a whole time slice (3 ms) to the process that takes the offer. If it needs
that, its core does not halt, and the wake of a sleeping rank interrupts it.
"""

_SHORTEST_PAUSE_NS, _LONGEST_PAUSE_NS = 2_000_000, 64_000_000
"""Nanoseconds without offers: twice as long after each long one, until one is short."""


class SharedWord(CollectiveDeadline):
    """One rank's side of the words that ranks wait for: its sleep, its deadline, its errors."""

    call: Call

    def __init__(self, arena: Arena, rank: Rank, timeout: float) -> None:
        super().__init__(arena, rank, timeout)
        self._waiting = waiting_word(rank.rank)
        self._spins: int | None = None
        self._offer_ns = _OFFER_NS
        self._next_offer = 0
        self._pause_ns = _SHORTEST_PAUSE_NS

    def publish(self, word: int, value: int, readers: Sequence[int]) -> None:
        """Set `word` and wake its sleepers; `readers` are the waiting words of possible ones."""
        words = self._words
        futex.order_fence()
        words[word] = value
        futex.full_fence()
        for reader in readers:
            if words[reader] == word * 8:
                futex.wake(self._arena.address + word * 8)
                break

    def wait(self, word: int, target: int, place: WaitPoint) -> None:
        """Return once `word` has reached `target`.

        Raises when the job is aborted or the deadline passes.
        """
        words = self._words
        for turn in range(self._spins if self._spins is not None else self._decide()):
            if words[word] >= target:
                return
            if turn >= _AT_ONCE:
                cpu_relax()
        self._rest(word, partial(self.has_come, word, target), place)

    def has_come(self, word: int, target: int) -> bool:
        """Whether `word` has reached `target`."""
        return self._words[word] >= target

    def wait_any(self, awaited: Sequence[tuple[int, int]], place: WaitPoint) -> None:
        """As `wait`, for the first of several words.

        The rank sleeps on the first one, so that another one may be noticed 20 ms late.
        """
        for turn in range(self._spins if self._spins is not None else self._decide()):
            if self._any_has_come(awaited):
                return
            if turn >= _AT_ONCE:
                cpu_relax()
        self._rest(awaited[0][0], partial(self._any_has_come, awaited), place)

    def _rest(self, word: int, come: Callable[[], bool], place: WaitPoint) -> None:
        """Offer the core, then sleep on `word`, until `come()`."""
        if self._offer_core(come):
            return
        words, address = self._words, self._arena.address + word * 8
        words[self._waiting] = word * 8
        try:
            while True:
                value = words[word]
                if come():
                    return
                self.check_abort()
                if not futex.wait(address, value) and not come():
                    self.check_missing(str(self.call), place)
        finally:
            words[self._waiting] = 0

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
        """How often to look before the core is offered.

        Ranks that share cores do not look: each needs the core of the other.
        """
        masks = [Progress(self._arena, rank).cores() for rank in range(self._arena.world_size)]
        if sum(map(bool, masks)) < self._rank.local_size:
            return 0
        cores = reduce(or_, masks).bit_count()
        if cores < self._rank.local_size:
            self._spins = 0
            self._offer_ns = _SHARED_CORE_OFFER_NS
        else:
            self._spins = _SPINS
        return self._spins
