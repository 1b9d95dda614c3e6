"""Watchdog: ends an incarnation that is not ready in time, or whose ranks make no progress.

It reads where the ranks stand from shared memory.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import NamedTuple

from ...comm.errors import RankHung
from ...comm.job_memory.progress import Stage
from ...comm.processes import rank_errors
from ...comm.processes.event_loop import Action
from ...comm.serving.order_state import OrderState
from ...comm.serving.orders import InvalidRankData
from ..scheduling.batch import InflightOrder
from .incarnation import Incarnation


class Suspect(NamedTuple):
    """The rank that the others wait for, and whether a signal has stopped it."""

    rank: int
    stopped: bool


class Watchdog:
    """Compares what the ranks have done from look to look; none is late while anything changes."""

    def __init__(
        self,
        incarnation: Incarnation,
        start_timeout: float,
        hang_timeout: float,
        oldest: Callable[[], InflightOrder | None],
    ) -> None:
        """Times are in seconds; `oldest` gives the oldest work under way, or None."""
        self._incarnation = incarnation
        self._oldest = oldest
        self._start_timeout = start_timeout
        self._hang_timeout = hang_timeout
        shortest = min(hang_timeout, start_timeout)
        self._interval = min(max(0.02, shortest / 20), 1.0)  # a hang is found so much later at most
        self._began = time.monotonic()
        self._since = self._began
        self._seen: object = None
        self._timer = incarnation.call_later(self._interval, self._tick)

    def stop(self) -> None:
        """Look no more."""
        self._timer.cancel()

    def accuse(self, rank: int) -> None:
        """End the incarnation because other ranks have given up waiting for `rank`."""
        self.stop()
        suspect = Suspect(rank, self._incarnation.processes[rank].stopped)
        self._request_stacks(suspect, lambda: self._end(suspect))

    def _tick(self) -> None:
        suspect = self._look()
        if suspect is not None:
            self._request_stacks(suspect, lambda: self._confirm(suspect))
        elif not self._incarnation.over:
            self._timer = self._incarnation.call_later(self._interval, self._tick)

    def _look(self) -> Suspect | None:
        if self._incarnation.over:
            return None
        for rank in range(len(self._incarnation.processes)):
            if not self._incarnation.progress(rank).sound:
                text = "wrote what is no stage or collective where its progress stands"
                raise InvalidRankData(rank, text)
        return self._hanging() if self._incarnation.ready else self._late()

    def _late(self) -> Suspect | None:
        """The rank that has used up the time for the start, or was stopped during it."""
        now = time.monotonic()
        if self._incarnation.fetching:
            self._began = now
        awaited = self._incarnation.awaited
        stopped = [rank for rank in awaited if self._incarnation.processes[rank].stopped]
        if stopped != self._seen:
            self._seen = stopped
            self._since = now
        too_late = now - self._began >= self._start_timeout
        if too_late or (stopped and now - self._since >= self._hang_timeout):
            return Suspect((stopped or awaited)[0], bool(stopped))
        return None

    def _hanging(self) -> Suspect | None:
        """The rank to blame where nothing has changed for as long as the deadline says."""
        work = self._oldest()
        if work is None:
            self._seen = None
            return None
        ranks = range(len(self._incarnation.specs))
        states = [self._incarnation.ring.state(work.number, rank) for rank in ranks]
        unfinished = [rank for rank in ranks if states[rank] is not OrderState.ANSWERED]
        if OrderState.NEEDS_ROOM in states or not unfinished:
            self._seen = None  # a rank was stopped, or failed, between its answer and the bell
            self._incarnation.look()
            return None
        entered = [self._incarnation.progress(rank).entered for rank in ranks]
        seen = (work.number, states, entered, self._incarnation.carried(work.number))
        if seen != self._seen:
            self._seen = seen
            self._since = time.monotonic()
        if time.monotonic() - self._since < self._hang_timeout:
            return None
        return self._suspect(unfinished)

    def _suspect(self, unfinished: list[int]) -> Suspect:
        """A stopped rank before others, then one outside collectives: those inside wait for it."""
        stopped = [rank for rank in unfinished if self._incarnation.processes[rank].stopped]
        outside = [rank for rank in unfinished if not self._incarnation.progress(rank).waiting]
        return Suspect((stopped or outside or unfinished)[0], bool(stopped))

    def _request_stacks(self, suspect: Suspect, then: Action) -> None:
        """Have a rank that can do so write its stacks, which go into the error."""
        stage = self._incarnation.progress(suspect.rank).stage
        if suspect.stopped or stage is Stage.STARTING:  # the signal ends it before its imports
            self._end(suspect)
        else:
            self._timer = self._incarnation.request_stacks(suspect.rank, then)

    def _confirm(self, suspect: Suspect) -> None:
        if self._look() == suspect:
            self._end(suspect)
        else:
            self._tick()

    def _end(self, suspect: Suspect) -> None:
        if not self._incarnation.over:
            error = self._error(suspect)
            self._incarnation.fail_rank(error, suspect.rank, guilty=not suspect.stopped)

    def _error(self, suspect: Suspect) -> RankHung:
        incarnation = self._incarnation
        process = incarnation.processes[suspect.rank]
        progress = {rank: incarnation.progress(rank) for rank in range(len(incarnation.processes))}
        if incarnation.ready:
            return rank_errors.hung(process, progress, self._hang_timeout, suspect.stopped)
        seconds = time.monotonic() - self._began
        return rank_errors.not_ready(process, progress[suspect.rank], seconds, suspect.stopped)
