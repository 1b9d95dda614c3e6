"""Who sees first that a rank ends."""

from __future__ import annotations

import threading
from collections.abc import Callable

from ..comm import futex
from ..comm.arena import Arena
from ..comm.processes.lifeline import Lifeline

_MOST = futex.MOST_AT_ONCE


class Deathwatch(threading.Thread):
    """Sleeps until a rank of an arena begins to end, and tells; of groups too large for it, others tell later."""

    def __init__(self, arena: Arena, died: Callable[[int], None]) -> None:
        """`died` is called once, in this thread, with the first rank."""
        super().__init__(name="rankmesh-deathwatch", daemon=True)
        self._lines = [Lifeline(arena, rank) for rank in range(min(arena.world_size, _MOST))]
        self._died, self._going = died, True

    def stop(self) -> None:
        """End within two seconds, mostly at once; from any thread."""
        self._going = False
        futex.wake(self._lines[0].address)

    def run(self) -> None:
        """See the class."""
        while self._going:
            values = [line.value for line in self._lines]
            for rank, line in enumerate(self._lines):
                if line.cut:
                    self._died(rank)
                    return
            if not futex.wait_any([line.address for line in self._lines], values):
                return
