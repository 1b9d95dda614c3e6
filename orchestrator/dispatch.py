"""From the queue to the groups of ranks, and from their answers to the callers."""

from __future__ import annotations

import itertools
import logging
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Future
from functools import partial
from typing import Any

from ..comm.errors import RankmeshError, UsageError
from ..comm.serving.orders import Answer
from ..comm.serving.seats import NO_SEAT, Seats
from ..comm.serving.tensor_arena import OwnedArena
from .allotment import Allotment, Left
from .assembly import Assembly
from .buffers import Buffers
from .counters import Counters
from .editions import Edition
from .group import Group
from .inputs import InputSpecs
from .loop import Loop
from .owner import Condition
from .queue import RequestQueue
from .refusals import another, as_ours, blamed
from .replies import Replies
from .request import Promise, Request
from .settings import ModelSettings
from .standing import Standing
from .updates import Updates
from .work import Work

_LOG = logging.getLogger("rankmesh")


class Dispatcher:
    """The queue of one model and the groups that answer it. `submit` may be called from any thread.

    Futures are completed in the loop's thread, or in one that waits for them, with no lock held.
    """

    def __init__(self, settings: ModelSettings, arena: OwnedArena, weights: OwnedArena, seats: Seats,
                 loop: Loop) -> None:
        """`arena` is for requests' tensors, `weights` for updated weights, `seats` for callers that wait."""
        self.settings, self._arena, self._seats, self._loop = settings, arena, seats, loop
        self.groups: list[Group] = []
        self.one_first = False
        """Whether the first group is to be ready before the others start."""

        self.counters = Counters()
        self._replies = Replies(self.counters, seats)
        self.standing = Standing()
        self.lock = threading.Lock()
        self._idle = threading.Condition(self.lock)
        self.updates = Updates(settings, self.groups, weights, loop, self.lock, self.standing.require_open)
        self._number = itertools.count(1)
        self._allotment = Allotment(self.groups, settings.queue_limit, self.counters, self._replies, loop, self._expire,
                                    self._pump)

    def call(self, given: Mapping[str, Any] | Sequence[Any], timeout: float | None, priority: int, every: bool) -> Any:
        """As `submit`, and wait for the result.

        The ranks wake this thread itself, which takes the answer from shared memory: that spares changes of threads.
        """
        self._check_may_wait("predict")
        request = self._request(given, timeout, priority, every)
        request.seat = self._seats.take()
        try:
            self._put(request)
            while request.seat != NO_SEAT and not request.future.done():
                self._seats.wait(request.seat)
                self._take_answer(request)
            return request.future.result()
        except BaseException:  # an error, or an interrupt: nobody waits for the answer any more
            request.future.cancel()
            self._loop.call_soon(partial(self._forsake, request))
            raise
        finally:
            self._seats.leave(request.seat)

    def submit(self, given: Mapping[str, Any] | Sequence[Any], timeout: float | None, priority: int,
               every: bool) -> Future[Any]:
        """Queue a request; its result is a dict from output name to array, or with `every` one per rank.

        `given` is a mapping from name to array, Buffers, or the arrays in order. Raises InputError, QueueFull.
        """
        request = self._request(given, timeout, priority, every)
        self._put(request)
        return request.future

    def _request(self, given: Mapping[str, Any] | Sequence[Any], timeout: float | None, priority: int,
                 every: bool) -> Request:
        try:
            self.standing.require_open()
            now = time.monotonic()
            inputs = given.taken(self.inputs) if isinstance(given, Buffers) else self.inputs.copied(given)
            kind, rows = self.assembly.kind(inputs, every)
        except RankmeshError as error:
            self.counters.refused(error)
            raise
        number = next(self._number)
        return Request(number, (inputs, every), Promise(number, self._cancelled), now, priority,
                       None if timeout is None else now + timeout, kind=kind, rows=rows)

    def _put(self, request: Request) -> None:
        try:
            with self.lock:
                self.standing.require_open()
                left = self._allotment.put(request)
        except RankmeshError as error:
            self.counters.refused(error)
            raise
        self._settle(left)

    def _take_answer(self, request: Request) -> None:
        """In the thread of its caller, who was told to look."""
        if request.future.done() or request.replica < 0:
            return
        group = self.groups[request.replica]
        with self.lock:
            work = group.works.of(request)
        answers = group.finish(work) if work is not None else None
        if work is not None and answers is not None:
            self.group_answered(group, work, answers)
        else:
            self._loop.call_soon(group.look)

    def _forsake(self, request: Request) -> None:
        """The caller does not wait for the answer of a request any more."""
        if request.replica >= 0:
            group = self.groups[request.replica]
            group.works.forsake(request)
            group.look()
        self._pump()

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
        self._check_may_wait("drain")
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
            self._allotment.clear()
        for request in self._replies.expected():
            self._replies.refuse(request, another(error))
        self._note_idle()
        self.updates.note()

    # Owner, in the loop's thread

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
        left = self._go_on(work)
        try:
            results = self.assembly.results(group, work, answers)
        except Exception as fault:  # whatever it is: no request may be forgotten
            self._refuse(work, as_ours(fault))
        else:
            for request, result in zip(work.requests, results, strict=True):
                self._replies.give(request, result)
        self._settle(left)

    def group_refused(self, group: Group, work: Work, error: RankmeshError) -> None:
        """See Owner.group_refused."""
        left = self._go_on(work)
        self._refuse(work, error)
        self._settle(left)

    def group_failed(self, group: Group, error: RankmeshError, works: list[Work], guilty: Work | None) -> None:
        """See Owner.group_failed."""
        if not self.standing.started or all(one.condition is Condition.STOPPED for one in self.groups):
            self._stop(error)
            return
        if group.condition is Condition.STOPPED:
            _LOG.error("the other replicas go on: %s", error)
        refused: list[Left] = blamed(guilty.requests if guilty is not None else [], error)
        undone = [request for work in works for request in work.requests]
        if group.stateful:  # what requests have left for later ones is lost: run again, this one might answer wrongly
            refused += [(request, another(error)) for request in undone]
        with self.lock:
            self.counters.count("restarts")
            left = self._allotment.put_back(undone, {request.id for request, _ in refused})
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
            _LOG.error("the orchestrator of model '%s' has stopped: %s", self.settings.label, error)
        self.give_up(error)
        self.standing.start()

    def _go_on(self, work: Work) -> list[Left]:
        with self.lock:
            return self._allotment.done(work)

    def _check_may_wait(self, call: str) -> None:
        if threading.get_ident() == self._loop.ident:
            raise UsageError(f"{call} waits for the thread that calls back, and may not be called from a callback of a "
                             f"future: use submit there, or another thread.")

    def _expire(self) -> None:
        with self.lock:
            left = self._allotment.expired()
        self._settle(left)

    def _pump(self) -> None:
        with self.lock:
            left = self._allotment.pump(time.monotonic())
        self._settle(left)

    def _cancelled(self, number: int) -> None:
        """A caller has cancelled a request."""
        request = self._replies.withdraw(number)
        if request is not None:
            with self.lock:
                self._allotment.forget(request)
            self._note_idle()

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
