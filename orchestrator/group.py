"""One group of ranks that together run the model: its epochs, what it is running, and when it has failed too often."""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Protocol

from ..comm.deadline import deadline_from_environment
from ..comm.errors import RankmeshError, RestartBudgetExhausted
from ..comm.placement import RankSpec
from ..comm.serving.orders import Answer, Room, Run, ServeJob
from ..comm.serving.ring import State
from ..comm.serving.tensor_arena import OwnedArena, Region
from .epoch import Epoch, Watcher
from .inputs import Inputs
from .loop import Loop
from .outputs import OutputSpecs, room_of
from .request import Request
from .settings import ModelSettings
from .verdict import hung, late
from .watchdog import Watchdog

_LOG = logging.getLogger("rankmesh")
_SETTLE = 0.2
"""Seconds that a rank has to fail in the same request in which another has, before the group is taken for broken."""

_FIRST_PAUSE, _LONGEST_PAUSE = 0.1, 5.0
_LOOK = 0.25


class Condition(Enum):
    """What a group is doing."""

    STARTING = "starting"
    READY = "ready"
    RESTARTING = "restarting"
    STOPPED = "stopped"


@dataclass(slots=True, eq=False)
class Work:
    """What a group runs at once: one request, or a batch of them; `given` has the outputs that each rank gives."""

    requests: list[Request]
    inputs: Inputs
    given: list[list[int]]
    regions: list[Region | None] = field(default_factory=list)
    number: int = -1
    begun: float = 0.0


class Owner(Protocol):
    """Who gives a group its work; called in the loop's thread."""

    def group_ready(self, group: Group) -> None:
        """The group takes work."""

    def group_answered(self, group: Group, work: Work, answers: list[Answer]) -> None:
        """A work is done, rightly or not."""

    def group_failed(self, group: Group, error: RankmeshError, running: list[Work], waiting: list[Work]) -> None:
        """The group restarts, or has stopped; `running` are the works during which it failed."""


class Group(Watcher):
    """Ranks `ranks`, numbered from 0 in the group. `begin` and `free` may be called from any thread that holds `lock`."""

    def __init__(self, index: int, ranks: Sequence[RankSpec], job: ServeJob, settings: ModelSettings, arena: OwnedArena,
                 loop: Loop, owner: Owner, lock: threading.Lock) -> None:
        self.index, self.ranks = index, ranks
        self._job, self._settings, self._arena, self._loop, self._owner = job, settings, arena, loop, owner
        self._lock = lock
        self.condition = Condition.STARTING
        self.epoch: Epoch | None = None
        self.outputs: OutputSpecs | None = None
        self.works: deque[Work] = deque()
        self.window = 1
        self.restarts = self.failures = self.epochs = 0
        self.last_error = ""
        self.died_at = 0.0
        self._watchdog = Watchdog(settings.hang_timeout)

    # any thread, with the lock

    @property
    def free(self) -> bool:
        """Whether the group takes more work now."""
        return self.condition is Condition.READY and len(self.works) < self.window

    def begin(self, work: Work) -> None:
        """Give the ranks a work; the group must be free."""
        assert self.epoch is not None and self.outputs is not None
        work.regions = self.outputs.rooms(work.given)
        work.number, work.begun = self.epoch.ring.given, time.monotonic()
        order = Run(work.requests[0].id, work.inputs.places, [room_of(region) for region in work.regions], work.given)
        self.works.append(work)  # first: it may be answered before `give` returns
        try:
            self.epoch.ring.give(work.number, order)
        except RankmeshError:
            self.works.pop()
            raise

    # the loop's thread

    def start(self) -> None:
        """Start the ranks, for the first time or again."""
        if self.condition is Condition.STOPPED:
            return
        self.epochs += 1
        try:
            epoch = Epoch(self.epochs, self.ranks, self._job, deadline_from_environment(),
                          max(2, len(self.ranks)), self._loop, self, self._log)
        except OSError as error:
            self.failed(None, RankmeshError(f"the ranks of replica {self.index} cannot be started: {error}"), 0)
            return
        self.epoch = epoch
        self._loop.call_later(self._settings.start_timeout, lambda: self._check_start(epoch))
        self._loop.call_later(_LOOK, lambda: self._look(epoch))

    def stop(self) -> None:
        """End the ranks in order."""
        before, self.condition = self.condition, Condition.STOPPED
        if self.epoch is not None and before is not Condition.STOPPED and not self.epoch.over:
            self.epoch.stop()

    def ready(self, epoch: Epoch) -> None:
        """See Watcher.ready."""
        reports = [epoch.reports[rank] for rank in range(len(self.ranks))]
        self.outputs = OutputSpecs(reports, self._arena)
        self.window = 1 if reports[0].results else len(reports)  # stages of a pipeline work on different requests
        self._watchdog.reset()
        self.condition = Condition.READY
        self._owner.group_ready(self)

    def answered(self, epoch: Epoch) -> None:
        """See Watcher.answered."""
        while self.works and epoch is self.epoch and not epoch.over:
            work = self.works[0]
            self._grant_room(epoch, work)
            if not epoch.ring.answered(work.number):
                self._settle(epoch, work)
                return
            answers = [epoch.ring.answer(work.number, rank) for rank in range(len(self.ranks))]
            broken = epoch.arena.aborted() is not None
            self.works.popleft()
            if not broken:
                self.failures = 0
            self._owner.group_answered(self, work, answers)
            if broken:
                error = next(answer for answer in answers if answer.error)
                epoch.fail(RankmeshError(error.text), 0)

    def failed(self, epoch: Epoch | None, error: RankmeshError, rank: int) -> None:
        """See Watcher.failed."""
        if epoch is not self.epoch or self.condition is Condition.STOPPED:
            return
        self.died_at = time.monotonic()
        self.failures += 1
        self.last_error = str(error)
        exhausted = self.failures > self._settings.restart_budget
        with self._lock:
            begun = self.window if self.condition is Condition.READY else 0
            self.condition = Condition.STOPPED if exhausted else Condition.RESTARTING
            works, self.works = list(self.works), deque()
        if exhausted:
            error = RestartBudgetExhausted(f"replica {self.index} has failed {self.failures} times without a completed "
                                           f"request between, so the orchestrator stops. The last failure: {error}")
        else:
            self.restarts += 1
            pause = 0.0 if self.failures < 2 else min(_LONGEST_PAUSE, _FIRST_PAUSE * 2 ** (self.failures - 2))
            self._loop.call_later(pause, self.start)
            _LOG.warning("replica %d restarts in %.1f s: %s", self.index, pause, error)
        self._owner.group_failed(self, error, works[:begun], works[begun:])

    def _grant_room(self, epoch: Epoch, work: Work) -> None:
        for rank in range(len(self.ranks)):
            if epoch.ring.state(work.number, rank) is State.NEEDS_ROOM:
                assert self.outputs is not None
                needed = epoch.ring.answer(work.number, rank).needed
                work.regions[rank] = region = self._arena.allocate(needed)
                self.outputs.remember(work.given[rank], needed)
                epoch.ring.grant(work.number, rank, Room(region.offset, region.size))

    def _settle(self, epoch: Epoch, work: Work) -> None:
        """Where one rank has answered with an error and others have not: they may wait for it in a collective."""
        states = [epoch.ring.state(work.number, rank) for rank in range(len(self.ranks))]
        answers = {rank: epoch.ring.answer(work.number, rank) for rank, state in enumerate(states)
                   if state is State.ANSWERED}
        if any(answer.error for answer in answers.values()):
            self._loop.call_later(_SETTLE, lambda: self._break(epoch, work, answers))

    def _break(self, epoch: Epoch, work: Work, answers: dict[int, Answer]) -> None:
        if not self.works or self.works[0] is not work or epoch.over:
            return
        self.works.popleft()
        self._owner.group_answered(self, work, list(answers.values()))
        rank, answer = next((rank, answer) for rank, answer in answers.items() if answer.error)
        epoch.fail(RankmeshError(f"rank {rank}: {answer.text}"), rank)

    def _check_start(self, epoch: Epoch) -> None:
        if epoch.over or epoch.ready:
            return
        slow = next(rank for rank in range(len(self.ranks)) if rank not in epoch.reports)
        epoch.fail(late(epoch.processes[slow], epoch.progress(slow), self._settings.start_timeout), slow)

    def _look(self, epoch: Epoch) -> None:
        """Now and then: does whoever has work make progress?"""
        if epoch.over:
            return
        suspect = self._watchdog.look(epoch, self.works[0].number if self.works else None)
        if suspect is not None:
            progress = epoch.progress(suspect.rank)
            epoch.fail(hung(epoch.processes[suspect.rank], progress, self._settings.hang_timeout, suspect.stopped),
                       suspect.rank)
            return
        self._loop.call_later(_LOOK, lambda: self._look(epoch))

    def _log(self, rank: int, stream: int, line: str) -> None:
        _LOG.info("[replica %d rank %d] %s", self.index, rank, line)
