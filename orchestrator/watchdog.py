"""Which rank is not ready in time, or has stopped making progress, by what stands in shared memory."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable
from typing import NamedTuple

from ..comm.errors import RankHung
from ..comm.progress import Stage
from ..comm.serving.nonsense import Nonsense
from ..comm.serving.ring import State
from .epoch import Epoch
from .loop import Loop, Timer
from .verdict import hung, late
from .work import Work

_LOOKS = 20
"""Looks within the deadline: a hang is seen so much later at most."""

_SHORTEST, _LONGEST = 0.02, 1.0
_STACKS = 0.3
"""Seconds that a rank has to write down where its threads are."""


class Suspect(NamedTuple):
    """The rank that the others wait for, and whether a signal has stopped it."""

    rank: int
    stopped: bool


class Watchdog:
    """Ends an epoch that does not come to be ready, or does not get on with what it has to do.

    It compares what the ranks have done from look to look; none is late while anything changes.
    """

    def __init__(self, epoch: Epoch, loop: Loop, start_timeout: float, hang_timeout: float,
                 oldest: Callable[[], Work | None]) -> None:
        """Times are in seconds; `oldest` is the oldest work under way, None where there is none."""
        self._epoch, self._loop, self._oldest = epoch, loop, oldest
        self._start_timeout, self._hang_timeout = start_timeout, hang_timeout
        self._interval = min(max(_SHORTEST, min(hang_timeout, start_timeout) / _LOOKS), _LONGEST)
        self._began = self._since = time.monotonic()
        self._seen: object = None
        self._timer = self._later(self._interval, self._tick)

    def stop(self) -> None:
        """Look no more."""
        self._timer.cancel()

    def accuse(self, rank: int) -> None:
        """Others have waited for `rank` for so long that they gave up."""
        self.stop()
        suspect = Suspect(rank, self._epoch.processes[rank].stopped)
        self._question(suspect, lambda: self._sentence(suspect))

    def _tick(self) -> None:
        suspect = self._look()
        if suspect is not None:
            self._question(suspect, lambda: self._confirm(suspect))
        elif not self._epoch.over:
            self._timer = self._later(self._interval, self._tick)

    def _later(self, seconds: float, act: Callable[[], None]) -> Timer:
        """Whatever a look raises ends the epoch, and not only the looks."""
        return self._loop.call_later(seconds, self._epoch.guarded(act))

    def _look(self) -> Suspect | None:
        if self._epoch.over:
            return None
        self._check_records()
        return self._hanging() if self._epoch.ready else self._late()

    def _check_records(self) -> None:
        for rank in range(len(self._epoch.processes)):
            if not self._epoch.progress(rank).sound:
                raise Nonsense(rank, "wrote what is no stage or collective where its progress stands")

    def _late(self) -> Suspect | None:
        now, awaited = time.monotonic(), self._epoch.awaited
        stopped = [rank for rank in awaited if self._epoch.processes[rank].stopped]
        if stopped != self._seen:
            self._seen, self._since = stopped, now
        if now - self._began >= self._start_timeout or stopped and now - self._since >= self._hang_timeout:
            return Suspect((stopped or awaited)[0], bool(stopped))
        return None

    def _hanging(self) -> Suspect | None:
        work, ranks = self._oldest(), range(len(self._epoch.ranks))
        if work is None:
            self._seen = None
            return None
        states = [self._epoch.ring.state(work.number, rank) for rank in ranks]
        lost = State.NEEDS_ROOM in states or all(state is State.ANSWERED for state in states)
        if lost:  # a rank was stopped, or has failed, between its answer and the bell
            self._seen = None
            self._epoch.look()
            return None
        seen = (work.number, states, [self._epoch.progress(rank).entered for rank in ranks])
        if seen != self._seen:
            self._seen, self._since = seen, time.monotonic()
            return None
        if time.monotonic() - self._since < self._hang_timeout:
            return None
        return self._suspect([rank for rank in ranks if states[rank] is not State.ANSWERED])

    def _suspect(self, unfinished: list[int]) -> Suspect:
        """A stopped rank before others, then one that is in no collective: those inside wait for it."""
        stopped = [rank for rank in unfinished if self._epoch.processes[rank].stopped]
        outside = [rank for rank in unfinished if not self._epoch.progress(rank).waiting]
        return Suspect((stopped or outside or unfinished)[0], bool(stopped))

    def _question(self, suspect: Suspect, then: Callable[[], None]) -> None:
        """Have a rank that is not stopped write its stacks, which go into the error."""
        stage = self._epoch.progress(suspect.rank).stage
        if suspect.stopped or stage is Stage.STARTING:  # before its imports, the signal would end it
            self._sentence(suspect)
            return
        self._epoch.processes[suspect.rank].send_signal(signal.SIGUSR1)
        self._timer = self._later(_STACKS, then)

    def _confirm(self, suspect: Suspect) -> None:
        if self._look() == suspect:
            self._sentence(suspect)
        else:
            self._tick()

    def _sentence(self, suspect: Suspect) -> None:
        if not self._epoch.over:
            self._epoch.fail(self._error(suspect), suspect.rank, guilty=not suspect.stopped)

    def _error(self, suspect: Suspect) -> RankHung:
        epoch = self._epoch
        process = epoch.processes[suspect.rank]
        if not epoch.ready:
            return late(process, epoch.progress(suspect.rank), time.monotonic() - self._began, suspect.stopped)
        progress = {rank: epoch.progress(rank) for rank in range(len(epoch.ranks))}
        return hung(process, progress, self._hang_timeout, suspect.stopped)
