"""One group of ranks that together run the model: its epochs, what it is running, and when it has failed too often."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from functools import partial

from ..comm.counted import counted
from ..comm.deadline import deadline_from_environment
from ..comm.errors import CollectiveTimeout, ModelError, RankmeshError
from ..comm.placement import RankSpec
from ..comm.serving.nonsense import Nonsense
from ..comm.serving.orders import Answer, ServeJob, Serving, Switch, encode_order, encode_run, encoded_run
from ..comm.serving.ring import Ring, State
from ..comm.serving.seats import Seats
from ..comm.serving.tensor_arena import OwnedArena
from .editions import Edition, exported
from .epoch import Epoch, Watcher
from .failures import Failures
from .loop import Loop, Timer
from .outputs import OutputSpecs, room_of
from .owner import Condition, Owner
from .settings import ModelSettings
from .stalemate import Stalemate, in_step
from .verdict import fault_of
from .watchdog import Watchdog
from .work import Work
from .works import Works


class Group(Watcher):
    """Ranks `ranks`, numbered from 0 in the group; all but what is marked so is for the loop's thread.

    `lock` guards which works are under way, and whether there may be more.
    """

    def __init__(self, index: int, ranks: Sequence[RankSpec], job: ServeJob, settings: ModelSettings, arena: OwnedArena,
                 seats: Seats, loop: Loop, owner: Owner, lock: threading.Lock) -> None:
        self.index, self.ranks = index, ranks
        self._job, self._settings, self._arena, self._seats = job, settings, arena, seats
        self._loop, self._owner, self._lock = loop, owner, lock
        self._began, self._again = time.monotonic(), list[int]()
        self.condition = Condition.STARTING
        self.epoch: Epoch | None = None
        self.outputs: OutputSpecs | None = None
        self.stateful = self.switching = False
        self.edition = exported(len(ranks))
        """What the ranks compute with, from the next order on."""

        self.works = Works(lock, arena, len(ranks))
        self.failures = Failures(settings.restart_budget)
        self.restarts = self.epochs = 0
        self._watchdog: Watchdog | None = None
        self._restart: Timer | None = None
        self._stopped: Callable[[], None] | None = None
        self._held: dict[Epoch, list[Work]] = {}
        self._stalemate: Stalemate | None = None
        self._promised: Serving | None = None
        self._collective_timeout = deadline_from_environment()
        self._next: Edition | None = None

    # any thread, with the lock

    @property
    def load(self) -> int | None:
        """How many works the group has; None if it takes no more now."""
        if self._next is not None:
            self.order_switch()
        return self.works.load if self.condition is Condition.READY and self._next is None else None

    @property
    def settled(self) -> bool:
        """Whether the ranks run requests, and have switched to the weights that they were to."""
        return self.condition is Condition.READY and not self.switching

    def switch(self, edition: Edition) -> None:
        """Have the ranks compute with `edition`, which they have staged, after the orders that they were given."""
        self._next, self.switching = edition, True
        self.order_switch()

    def order_switch(self) -> None:
        """Order what `switch` has asked for, if there is something, as soon as there is room for an order."""
        if self._next is not None and self.condition is Condition.READY and self.works.load is not None:
            self.edition, self._next = self._next, None
            self.works.give(Work([], None, ((),) * len(self.ranks)), encode_order(Switch(self.edition.number)))

    def begin(self, work: Work) -> None:
        """Give the ranks a work; the group must be free. OutOfMemory where there is no room for the outputs."""
        assert self.outputs is not None and work.inputs is not None
        work.regions = self.outputs.rooms(work.given)
        rooms = tuple(map(room_of, work.regions))
        layout = work.inputs.layout
        encode = encoded_run if layout.common else encode_run
        self.works.give(work, encode(layout, work.inputs.region.offset, rooms, work.given))

    # the loop's thread

    def look(self) -> None:
        """Look for answers, though nobody has rung."""
        if self.epoch is not None:
            self.epoch.look()

    def start(self) -> None:
        """Start the ranks, for the first time or again."""
        self._restart = None
        if self.condition is Condition.STOPPED:
            return
        self.epochs += 1
        self.epoch = None
        try:
            self.epoch = epoch = Epoch(self.epochs, self.ranks, len(self.ranks) + 2, self._seats, self._loop, self)
        except OSError as error:
            self.failed(None, RankmeshError(f"the ranks of replica {self.index} cannot be started: {error}"), 0, False)
            return
        settings = self._settings
        self._watchdog = Watchdog(epoch, self._loop, settings.start_timeout, settings.hang_timeout, self.works.first)
        self.edition = self._owner.edition
        epoch.start(self._job, self.edition, self._collective_timeout, self._log)

    def stop(self, stopped: Callable[[], None]) -> None:
        """End the ranks in order; `stopped` is called when they are gone."""
        with self._lock:
            self.condition = Condition.STOPPED
        self._stopped = stopped
        self._forget_stalemate()
        if self._watchdog is not None:
            self._watchdog.stop()
        if self.epoch is None or self.epoch.gone:
            self._tell_stopped()
        else:
            self.epoch.stop()

    def ready(self, epoch: Epoch) -> None:
        """See Watcher.ready."""
        reports = [epoch.reports[rank] for rank in range(len(self.ranks))]
        promised = self._promised or self._owner.promised
        if promised is not None and not _same(promised, reports[0]):
            epoch.fail(ModelError(f"{reports[0].path}: has other inputs or outputs than when the orchestrator started: "
                                  f"start a new orchestrator for another model."), 0, guilty=False)
            return
        self._promised, self.stateful = reports[0], any(report.stateful for report in reports)
        with self._lock:
            self.outputs = OutputSpecs(reports, self._arena)
            stages = 1 if reports[0].results else len(reports)
            ahead = len(reports) == 1 and not self.stateful and self._settings.batching is None
            self.works.open(epoch.ring, self.outputs, stages, ahead)
            self.condition = Condition.READY
        self._tell_ready()
        self._owner.group_ready(self)

    def _tell_ready(self) -> None:
        seconds, journal = time.monotonic() - self._began, self._owner.journal
        if not self.restarts:
            journal.say(logging.INFO, "replica %d is ready after %.2f s", self.index, seconds, replica=self.index)
        else:
            journal.say(logging.INFO, "replica %d has recovered after %.2f s, with %s to run again", self.index,
                        seconds, counted(len(self._again), "request"), replica=self.index, requests=self._again)

    def answered(self, epoch: Epoch) -> None:
        """See Watcher.answered."""
        while (work := self.works.first()) is not None and epoch is self.epoch and not epoch.over:
            right = self.works.finish(work)
            if right is not None:
                self._forget_stalemate()
                self._tell_done(work, right)
                continue
            answers = self.works.answers(work)
            fault = fault_of(answers, len(self.ranks))
            if len(answers) == len(self.ranks) and fault is not None:
                self._refuse(epoch, work, fault, list(answers.values()))
            elif fault is not None:
                self._settle(epoch, work, fault)
                return
            elif self.works.first() is work:
                return

    def _tell_done(self, work: Work, answers: list[Answer]) -> None:
        if work.requests:
            self._owner.group_answered(self, work, answers)
        else:
            self.switching = False
            self._owner.group_switched(self)

    def failed(self, epoch: Epoch | None, error: RankmeshError, rank: int, guilty: bool) -> None:
        """See Watcher.failed."""
        if epoch is not self.epoch or self.condition is Condition.STOPPED:
            return
        self._forget_stalemate()
        if self._watchdog is not None:
            self._watchdog.stop()
        self.failures.note(error)
        if self.condition is Condition.READY:
            self._began, self._again = time.monotonic(), list[int]()
        works = self._withdraw()
        self._again += [] if self.stateful else [request.id for work in works for request in work.requests]
        culprit = _running(epoch, works, rank, self.outputs) if epoch is not None and guilty else None
        if epoch is not None:
            self._held[epoch] = works  # until its processes are gone they may still write to the works' memory
        self._owner.group_failed(self, self._sentence(epoch, error), works, culprit)

    def _withdraw(self) -> list[Work]:
        """Take no more works: those that are not done."""
        first = self.condition is Condition.STARTING
        with self._lock:
            self._next, self.switching = None, False  # the next start begins with what counts then
            self.condition = Condition.STOPPED if first or self.failures.exhausted else Condition.RESTARTING
            return self.works.close()

    def _sentence(self, epoch: Epoch | None, error: RankmeshError) -> RankmeshError:
        """What becomes of the group after `error`, and the error to tell."""
        if self.condition is Condition.RESTARTING:
            self.restarts += 1
            when = f"in {self.failures.pause:.1f} s" if self.failures.pause else "at once"
            self._owner.journal.say(logging.WARNING, "replica %d restarts %s: %s", self.index, when, error,
                                    replica=self.index, requests=self._again)
            if epoch is None:  # no process has to end before
                self._restart = self._loop.call_later(self.failures.pause, self.start)
        elif self._promised is not None:  # else it was the first start, and the error is the constructor's
            return self.failures.too_many(self.index, error)
        return error

    def ended(self, epoch: Epoch) -> None:
        """See Watcher.ended."""
        if epoch.gone:
            self._held.pop(epoch, None)
        if epoch is self.epoch and self.condition is Condition.RESTARTING and self._restart is None:
            self._restart = self._loop.call_later(self.failures.rest, self.start)
        self._tell_stopped()

    def _tell_stopped(self) -> None:
        if self.condition is Condition.STOPPED and self.epoch is not None and self.epoch.gone:
            self.epoch = self._watchdog = None  # with the memory of its orders
            with self._lock:
                self.works.close()
        stopped, self._stopped = self._stopped, None
        if stopped is not None:
            stopped()

    def _settle(self, epoch: Epoch, work: Work, fault: RankmeshError) -> None:
        """One rank has failed in a work, others have not answered: do they wait for it in a collective for ever?"""
        if isinstance(fault, CollectiveTimeout):
            record = epoch.arena.aborted()
            assert self._watchdog is not None
            self._watchdog.accuse(record.rank if record is not None and record.rank is not None else 0)
        elif self._stalemate is None:
            self._stalemate = Stalemate(epoch, work.number, self._loop, partial(self._break, epoch, work, fault))

    def _refuse(self, epoch: Epoch, work: Work, fault: RankmeshError, answers: list[Answer]) -> None:
        """All have answered, and some with an error."""
        self._forget_stalemate()
        if not in_step(answers) or not work.requests:
            self._break(epoch, work, fault)
            return
        self.works.remove(work)
        self.failures.complete()
        epoch.ring.release(work.number)
        self._owner.group_refused(self, work, fault)

    def _forget_stalemate(self) -> None:
        if self._stalemate is not None:
            self._stalemate.forget()
        self._stalemate = None

    def _break(self, epoch: Epoch, work: Work, fault: RankmeshError) -> None:
        """End an epoch whose ranks are out of step because `work` failed on some: that is answered, and no failure."""
        self.works.remove(work)
        self.failures.forgive()
        epoch.fail(RankmeshError(f"a request has failed on some ranks and not on others: {fault}"), 0, guilty=False)
        self._held.setdefault(epoch, []).append(work)
        self._owner.group_refused(self, work, fault)

    def _log(self, rank: int, stream: int, line: str) -> None:
        self._owner.journal.rank_line(self.index, rank, line)


def _running(epoch: Epoch, works: Sequence[Work], rank: int, outputs: OutputSpecs | None) -> Work | None:
    """What a rank was at: the first work that it has not answered, or not rightly."""
    given = [work for work in works if work.number < epoch.ring.given]
    return next((work for work in given if not _right(epoch.ring, work, rank, outputs)), None)


def _right(ring: Ring, work: Work, rank: int, outputs: OutputSpecs | None) -> bool:
    try:
        if ring.state(work.number, rank) is not State.ANSWERED:
            return False
        answer = ring.answer(work.number, rank)
        if outputs is not None and not answer.error:
            outputs.check(rank, answer, work)
    except Nonsense:
        return False
    return True


def _same(promised: Serving, report: Serving) -> bool:
    return (promised.inputs, promised.outputs) == (report.inputs, report.outputs)
