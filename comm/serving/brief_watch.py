"""Brief watch: looks at a word for a moment before a rank sleeps, while no other process needs the
core.
"""

from __future__ import annotations

import time
from resource import RUSAGE_THREAD, getrusage

from ..job_memory.cpu_relax import cpu_relax

_LOOKS = 400
"""How often a rank looks before it sleeps: about 0.2 ms."""

_SHORTEST_PAUSE_NS, _LONGEST_PAUSE_NS = 2_000_000, 64_000_000
"""Nanoseconds without a watch: twice as long after each that was interrupted, until one is not."""


class BriefWatch:
    """One rank's watch of the word at `index`; it sleeps at once while its core is wanted.

    A watch spares the wake of a sleeper, which takes 25 to 100 us on a virtual machine. But where
    clients of a server share the cores of its ranks, the watch of one takes their time.
    """

    def __init__(self, words: memoryview, index: int, allowed: bool) -> None:
        """`allowed`: there is a core for each rank, and one more."""
        self._words = words
        self._index = index
        self._looks = _LOOKS if allowed else 0
        self._next = 0
        self._pause = _SHORTEST_PAUSE_NS
        self._taken = 0

    def sees(self, number: int) -> bool:
        """Whether the word is larger than `number`, or soon becomes so."""
        seen = self._words[self._index] > number
        if not seen and self._looks and time.monotonic_ns() >= self._next:
            for _ in range(self._looks):
                cpu_relax()
                seen = self._words[self._index] > number
                if seen:
                    break
            self._rest_if_wanted()
        return seen

    def _rest_if_wanted(self) -> None:
        """Watch no more for a while if the kernel has taken the core away since the last time."""
        taken = getrusage(RUSAGE_THREAD).ru_nivcsw
        if taken == self._taken:
            self._pause = _SHORTEST_PAUSE_NS
        else:
            self._next = time.monotonic_ns() + self._pause
            self._pause = min(2 * self._pause, _LONGEST_PAUSE_NS)
        self._taken = taken
