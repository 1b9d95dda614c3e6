"""From the queue to the groups of ranks, and from their answers to the callers."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterable
from functools import partial

from ..comm.errors import Closed, RankmeshError
from ..comm.serving.nonsense import Nonsense
from ..comm.serving.orders import Answer, Serving
from ..comm.serving.seats import Seats
from ..comm.serving.tensor_arena import OwnedArena
from .allotment import Allotment, Left
from .assembly import Assembly
from .counters import Counters
from .editions import Edition
from .group import Group
from .inputs import InputSpecs
from .journal import Journal
from .loop import Loop
from .owner import Condition
from .queue import RequestQueue
from .refusals import another, as_ours, blamed
from .replies import Replies
from .request import Request
from .settings import ModelSettings
from .standing import Standing
from .updates import Updates
from .work import Work


class Dispatcher:
    """The queue of one model and the groups that answer it; for any thread, but for what is marked otherwise.

    Futures are completed in the loop's thread, or in one that waits for them, with no lock held.
    """

    def __init__(self, settings: ModelSettings, arena: OwnedArena, weights: OwnedArena, seats: Seats,
                 loop: Loop, journal: Journal) -> None:
        """`arena` is for requests' tensors, `weights` for updated weights, `seats` for callers that wait."""
        self.settings, self._arena, self._loop = settings, arena, loop
        self.journal = journal
        self.groups: list[Group] = []
        self.one_first = False
        """Whether the first group is to be ready before the others start."""

        self.counters = Counters()
        self._replies = Replies(self.counters, seats, journal)
        self.standing = Standing()
        self.lock = threading.Lock()
        self._idle = threading.Condition(self.lock)
        self.updates = Updates(settings, self.groups, weights, loop, self.lock, self.standing.require_open)
        self._allotment = Allotment(self.groups, settings.queue_limit, self.counters, self._replies, loop, self._expire,
                                    self._pump)

    def put(self, request: Request) -> None:
        """Queue a request. Raises QueueFull, or Draining or Closed where no more are taken."""
        with self.lock:
            self.standing.require_open()
            left = self._allotment.put(request)
        self._settle(left)

    def cancelled(self, number: int) -> None:
        """A caller has cancelled a request."""
        request = self._replies.withdraw(number)
        if request is not None:
            with self.lock:
                self._allotment.forget(request)
            self._note_idle()

    def forsake(self, request: Request) -> None:
        """The caller of a request does not wait for it any more; in the loop's thread."""
        if request.replica >= 0:
            group = self.groups[request.replica]
            group.works.forsake(request)
            group.look()
        self._pump()

    def take_answer(self, request: Request) -> None:
        """Look whether a request has been answered, and if so complete its future; in the thread of its caller."""
        if request.future.done() or request.replica < 0:
            return
        group = self.groups[request.replica]
        try:
            found = group.works.finish_that_of(request)
        except Nonsense:  # the group sees to that, in its own thread
            found = None
        if found is None:
            self._loop.call_soon(group.look)
            return
        try:
            self.group_answered(group, *found)
        except BaseException:  # an interrupt: others may wait for the same work
            self._loop.call_soon(partial(self.group_answered, group, *found))
            raise
        if len(group.ranks) > 1 and len(group.works):  # of which some rank may have said something before
            self._loop.call_soon(group.look)

    @property
    def queue(self) -> RequestQueue:
        """The requests that wait."""
        return self._allotment.queue

    @property
    def assembly(self) -> Assembly:
        """What makes works of requests; there once a group has been ready."""
        assembly = self._allotment.assembly
        assert assembly is not None
        return assembly

    @property
    def inputs(self) -> InputSpecs:
        """What the model takes, likewise."""
        return self.assembly.inputs

    def start(self) -> None:
        """Start the groups; in the loop's thread."""
        for group in self.groups[:1] if self.one_first else self.groups:
            group.start()

    def take_no_more(self) -> None:
        """Refuse all further requests, before somebody waits for the others."""
        self._loop.require_another("drain")
        with self.lock:
            self.standing.closing = True

    def wait_idle(self, seconds: float | None) -> bool:
        """Wait until all requests are answered; whether they were."""
        with self._idle:
            return self._idle.wait_for(lambda: not len(self._replies), seconds)

    def give_up(self, error: RankmeshError) -> None:
        """Answer all that wait or run with `error`, and take no more."""
        with self.lock:
            self.standing.closing = True
            self.standing.closed = isinstance(error, Closed)
            self._allotment.clear()
        for request in self._replies.expected():
            self._replies.refuse(request, another(error))
        self._note_idle()
        self.updates.note()

    # Owner, in the loop's thread

    @property
    def promised(self) -> Serving | None:
        """See Owner.promised."""
        return self._allotment.assembly.report if self._allotment.assembly is not None else None

    @property
    def edition(self) -> Edition:
        """See Owner.edition."""
        return self.updates.current

    def group_switched(self, group: Group) -> None:
        """See Owner.group_switched."""
        self.updates.note()
        self._pump()

    def group_ready(self, group: Group) -> None:
        """See Owner.group_ready."""
        try:
            left = self._take_in(group)
        except RankmeshError as error:
            self._stop(error)
            return
        self._settle(left)
        self.updates.note()
        if self.one_first:
            self.one_first = False
            for other in self.groups[1:]:
                other.start()
        if all(one.condition is not Condition.STARTING for one in self.groups):
            self.standing.start()

    def group_answered(self, group: Group, work: Work, answers: list[Answer]) -> None:
        """See Owner.group_answered."""
        self.counters.observe("run", time.monotonic() - work.begun)
        group.failures.complete()
        left = self._go_on(group, work)
        try:
            results = self.assembly.results(group, work, answers)
        except Exception as fault:  # whatever it is: no request may be forgotten
            self._refuse(work, as_ours(fault))
        else:
            for index, request in enumerate(work.requests):
                self._replies.give(request, results[index])
        self._settle(left)

    def group_refused(self, group: Group, work: Work, error: RankmeshError) -> None:
        """See Owner.group_refused."""
        left = self._go_on(group, work)
        self._refuse(work, error)
        self._settle(left)

    def group_failed(self, group: Group, error: RankmeshError, works: list[Work], guilty: Work | None) -> None:
        """See Owner.group_failed."""
        if not self.standing.started or all(one.condition is Condition.STOPPED for one in self.groups):
            self._stop(error)
            return
        if group.condition is Condition.STOPPED:
            self.journal.say(logging.ERROR, "the other replicas go on: %s", error, replica=group.index)
        refused: list[Left] = blamed(guilty.requests if guilty is not None else [], error)
        undone = [request for work in works for request in work.requests]
        if group.stateful:  # what requests have left for later ones is lost: run again, this one might answer wrongly
            refused += [(request, another(error)) for request in undone]
        with self.lock:
            self.counters.count("restarts")
            again, left = self._allotment.put_back(undone, {request.id for request, _ in refused})
        for request in again:
            self.journal.replayed(request, group.index)
        self._settle([*refused, *left])
        self.updates.note()

    def _take_in(self, group: Group) -> list[Left]:
        with self.lock:
            if self._allotment.assembly is None:
                assert group.epoch is not None
                report = group.epoch.reports[0]
                self._allotment.assembly = Assembly(report, self._arena, self.settings.batching, self.counters)
            return self._allotment.pump(time.monotonic())

    def _stop(self, error: RankmeshError) -> None:
        """No rank is left that could answer."""
        if self.standing.fail(error):
            self.journal.say(logging.ERROR, "the orchestrator has stopped: %s", error)
        self.give_up(error)
        self.standing.start()

    def _go_on(self, group: Group, work: Work) -> list[Left]:
        with self.lock:
            return self._allotment.done(group, work)

    def _expire(self) -> None:
        with self.lock:
            left = self._allotment.expired()
        self._settle(left)

    def _pump(self) -> None:
        with self.lock:
            left = self._allotment.pump(time.monotonic())
        self._settle(left)

    def _note_idle(self) -> None:
        if self.standing.closing and not len(self._replies):
            with self._idle:
                self._idle.notify_all()

    def _settle(self, left: Iterable[Left]) -> None:
        """Answer requests that will not run."""
        for request, error in left:
            self._replies.refuse(request, error)
        self._note_idle()

    def _refuse(self, work: Work, error: RankmeshError) -> None:
        for request in work.requests:
            self._replies.refuse(request, another(error))
