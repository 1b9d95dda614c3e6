"""Brief watch: looks for an order for a moment before a rank sleeps, where the next one comes soon.

A watch spares the wake of a sleeper, which takes 25 to 100 us on a virtual machine, and its waker
up to 10.
"""

from __future__ import annotations

import os
import select
import time
from resource import RUSAGE_THREAD, getrusage

from ..job_memory.cpu_relax import cpu_relax

_LOOKS = 100
"""How often a rank looks before it sleeps: about 0.1 ms, without the time that others take."""

_SOON_NS = 200_000
"""Nanoseconds in which an order comes soon after the last one."""

_MOST, _ENOUGH = 8, 3
"""Of a saturating counter of orders that come soon, less those that do not: its largest value, and
the one from which a watch is worth it.
"""

_WANTED = -64
"""Its value after a watch that another process has delayed: so many orders wake a sleeper."""

_TURN_NS = 1_000_000
"""Nanoseconds after which a process that was given the core has much to do there."""

_POLLS = 200
"""How often a rank looks for bytes of a connection: about 0.2 ms."""

_SHORTEST_PAUSE_NS, _LONGEST_PAUSE_NS = 2_000_000, 64_000_000
"""Nanoseconds without a look for bytes: twice as long after each that was interrupted, until one is
not.
"""


class BriefWatch:
    """Of the word at `index`, which grows with each order.

    Between two looks others have the core, such as the process that is about to give an order. One
    that keeps it for long would delay the next order, for which a sleeper is woken at once.
    """

    def __init__(self, words: memoryview, index: int, allowed: bool) -> None:
        """`allowed`: there is a core for each rank, and one more."""
        self._words = words
        self._index = index
        self._allowed = allowed
        self._begun = 0
        self._score = _MOST

    def sees(self, number: int) -> bool:
        """Whether the word is larger than `number`, or soon becomes so. If not, `woke` is to be
        called once it is.
        """
        if self._words[self._index] > number:
            return True
        self._begun = time.monotonic_ns()
        seen = self._allowed and self._score >= _ENOUGH and self._comes(number)
        if seen:
            self._note(True)
        return seen

    def woke(self) -> None:
        """The rank has slept until there was an order."""
        self._note(time.monotonic_ns() - self._begun < _SOON_NS)

    def _comes(self, number: int) -> bool:
        words, index, now = self._words, self._index, self._begun
        for _ in range(_LOOKS):
            cpu_relax()
            os.sched_yield()
            if words[index] > number:
                return True
            before, now = now, time.monotonic_ns()
            if now - before > _TURN_NS:
                self._score = _WANTED
                break
        return False

    def _note(self, soon: bool) -> None:
        if soon:
            self._score = min(self._score + 1, _MOST)
        elif self._score > 0:
            self._score -= 1


class ConnectionWatch:
    """Of the bytes that come over a connection."""

    def __init__(self, descriptor: int, allowed: bool) -> None:
        """`allowed`: the rank has a core of its own."""
        self._allowed = allowed
        self._next = 0
        self._pause = _SHORTEST_PAUSE_NS
        self._taken = 0
        self._poll = select.poll()
        self._poll.register(descriptor, select.POLLIN)

    def look(self) -> None:
        """Return once there are bytes, or else soon.

        Rest after that if the kernel has taken the core away since the last time.
        """
        if not self._allowed or time.monotonic_ns() < self._next:
            return
        for _ in range(_POLLS):
            if self._poll.poll(0):
                break
        before, self._taken = self._taken, getrusage(RUSAGE_THREAD).ru_nivcsw
        if self._taken == before:
            self._pause = _SHORTEST_PAUSE_NS
        else:
            self._next = time.monotonic_ns() + self._pause
            self._pause = min(2 * self._pause, _LONGEST_PAUSE_NS)
