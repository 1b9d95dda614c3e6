"""Brief watch: looks for an order for a moment before a rank sleeps, while no other process needs
the core.
"""

from __future__ import annotations

import select
import time
from resource import RUSAGE_THREAD, getrusage

from ..host.current_core import current_core
from ..job_memory.cpu_relax import cpu_relax

_LOOKS = 400
"""How often a rank looks before it sleeps: about 0.2 ms."""

_POLLS = 200
"""As _LOOKS, of a connection: as long, as a call of the kernel takes twice the time."""

_SHORTEST_PAUSE_NS, _LONGEST_PAUSE_NS = 2_000_000, 64_000_000
"""Nanoseconds without a watch: twice as long after each that was interrupted, until one is not."""


class _Watch:
    """One rank's watch; it sleeps at once while its core is wanted.

    A watch spares the wake of a sleeper, which takes 25 to 100 us on a virtual machine. But where
    clients of a server share the cores of its ranks, the watch of one takes their time.
    """

    def __init__(self, looks: int) -> None:
        """`looks` is how often it looks, 0: never."""
        self._looks = looks
        self._next = 0
        self._pause = _SHORTEST_PAUSE_NS
        self._taken = 0

    def _rest_if_wanted(self) -> None:
        """Watch no more for a while if the kernel has taken the core away since the last time."""
        taken = getrusage(RUSAGE_THREAD).ru_nivcsw
        if taken == self._taken:
            self._pause = _SHORTEST_PAUSE_NS
        else:
            self._next = time.monotonic_ns() + self._pause
            self._pause = min(2 * self._pause, _LONGEST_PAUSE_NS)
        self._taken = taken


class BriefWatch(_Watch):
    """Of the word at `index`. Behind it is the core of the process that writes it.

    On that core a rank sleeps at once. The kernel often runs a rank that wakes in place of the
    process that has woken it, and that could neither go on nor write the next number meanwhile.
    """

    def __init__(self, words: memoryview, index: int, allowed: bool) -> None:
        """`allowed`: there is a core for each rank, and one more."""
        super().__init__(_LOOKS if allowed else 0)
        self._words = words
        self._index = index

    def note_core(self) -> None:
        """Note the core of this process, which is about to write the word."""
        self._words[self._index + 1] = current_core()

    def sees(self, number: int) -> bool:
        """Whether the word is larger than `number`, or soon becomes so."""
        seen = self._words[self._index] > number
        if not seen and self._looks and time.monotonic_ns() >= self._next and self._has_own_core():
            for _ in range(self._looks):
                cpu_relax()
                seen = self._words[self._index] > number
                if seen:
                    break
            self._rest_if_wanted()
        return seen

    def _has_own_core(self) -> bool:
        return bool(self._words[self._index + 1] != current_core())


class ConnectionWatch(_Watch):
    """Of the bytes that come over a connection."""

    def __init__(self, descriptor: int, allowed: bool) -> None:
        """`allowed`: the rank has a core of its own."""
        super().__init__(_POLLS if allowed else 0)
        self._poll = select.poll()
        self._poll.register(descriptor, select.POLLIN)

    def look(self) -> None:
        """Return once there are bytes, or else soon."""
        if self._looks and time.monotonic_ns() >= self._next:
            for _ in range(self._looks):
                if self._poll.poll(0):
                    break
            self._rest_if_wanted()
