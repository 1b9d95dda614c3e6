"""Which rank of a group has stopped making progress, by what stands in shared memory."""

from __future__ import annotations

import time
from typing import NamedTuple

from ..comm.serving.ring import State
from .epoch import Epoch


class Suspect(NamedTuple):
    """The rank that the others wait for, and whether a signal has stopped it."""

    rank: int
    stopped: bool


class Watchdog:
    """Compares what the ranks have done from look to look; none is late while anything changes."""

    def __init__(self, timeout: float) -> None:
        """`timeout` is in seconds; 0: a rank may take any time."""
        self._timeout = timeout
        self._seen: object = None
        self._since = 0.0

    def reset(self) -> None:
        """Forget what was seen: new processes."""
        self._seen = None

    def look(self, epoch: Epoch, number: int | None) -> Suspect | None:
        """Who is to blame once the order `number` (None: nothing is to be done) has not advanced for too long."""
        if number is None or not self._timeout:
            self._seen = None
            return None
        ranks = range(len(epoch.ranks))
        states = [epoch.ring.state(number, rank) for rank in ranks]
        entered = [epoch.progress(rank).entered for rank in ranks]
        seen = (number, states, entered)
        if seen != self._seen:
            self._seen, self._since = seen, time.monotonic()
            return None
        if time.monotonic() - self._since < self._timeout:
            return None
        return _suspect(epoch, [rank for rank in ranks if states[rank] is not State.ANSWERED])


def _suspect(epoch: Epoch, unfinished: list[int]) -> Suspect:
    """A stopped rank before others, then one that is in no collective: those inside wait for it."""
    stopped = [rank for rank in unfinished if epoch.processes[rank].stopped]
    outside = [rank for rank in unfinished if not epoch.progress(rank).waiting]
    return Suspect((stopped or outside or unfinished)[0], bool(stopped))
