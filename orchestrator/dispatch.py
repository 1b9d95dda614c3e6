"""From the queue to the groups of ranks, and from their answers to the callers."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Sequence
from concurrent.futures import Future
from typing import Any

from ..comm.errors import DeadlineExceeded, Poisoned, RankmeshError, UsageError, error_named
from ..comm.serving.orders import Answer
from ..comm.serving.tensor_arena import OwnedArena
from .group import Condition, Group, Work
from .inputs import Inputs, InputSpecs
from .limits import Limits
from .loop import Loop
from .outputs import in_order
from .queue import RequestQueue
from .request import Request

_DEATHS = 2
"""A request during which ranks died as often as this is refused."""


class Dispatcher:
    """The queue of one model and the groups that answer it. `submit` may be called from any thread.

    Futures are completed in the loop's thread, with no lock held.
    """

    def __init__(self, limits: Limits, arena: OwnedArena, loop: Loop) -> None:
        self.limits, self._arena, self._loop = limits, arena, loop
        self.groups: list[Group] = []
        self.inputs: InputSpecs | None = None
        self.queue = RequestQueue(limits.queue)
        self.started = threading.Event()
        self.failure: RankmeshError | None = None
        self.closing = False
        self._lock = threading.Lock()
        self._idle = threading.Condition(self._lock)
        self._number = itertools.count(1)
        self._tick: float | None = None

    def submit(self, inputs: Inputs, timeout: float | None, priority: int, every: bool) -> Future[Any]:
        """Queue a request; its result is a dict from output name to array, or with `every` one per rank."""
        now = time.monotonic()
        request = Request(next(self._number), (inputs, every), Future(), now, priority,
                          None if timeout is None else now + timeout)
        with self._lock:
            self._check_open()
            self.queue.put(request)
            left = self._pump(now)
            self._watch_deadline()
        self._settle(left)
        return request.future

    @property
    def unanswered(self) -> int:
        """Requests that wait or run."""
        with self._lock:
            return self._unanswered()

    def wait_idle(self, seconds: float) -> bool:
        """Take no more requests, and wait until all are answered; whether they were."""
        with self._idle:
            self.closing = True
            return self._idle.wait_for(lambda: not self._unanswered(), seconds or None)

    def give_up(self, error: RankmeshError) -> None:
        """Answer all that wait or run with `error`, and take no more."""
        with self._lock:
            self.closing, self.failure = True, self.failure or error
            left = self.queue.drain()
            for group in self.groups:
                left += [request for work in group.works for request in work.requests]
                group.works.clear()
            self._idle.notify_all()
        for request in left:
            self._fail(request, error)

    # Owner, in the loop's thread

    def group_ready(self, group: Group) -> None:
        """See Owner.group_ready."""
        with self._lock:
            if self.inputs is None:
                assert group.epoch is not None
                report = group.epoch.reports[0]
                self.inputs = InputSpecs(report.path, report.inputs, self._arena)
            left = self._pump(time.monotonic())
        self._settle(left)
        if all(one.condition is not Condition.STARTING for one in self.groups):
            self.started.set()

    def group_answered(self, group: Group, work: Work, answers: list[Answer]) -> None:
        """See Owner.group_answered."""
        with self._lock:
            left = self._pump(time.monotonic())
            self._idle.notify_all()
        self._complete(group, work, answers)
        self._settle(left)

    def group_failed(self, group: Group, error: RankmeshError, running: list[Work], waiting: list[Work]) -> None:
        """See Owner.group_failed."""
        if not self.started.is_set() or group.condition is Condition.STOPPED:
            self.failure = self.failure or error
            self.started.set()
            self.give_up(error)
            return
        now = time.monotonic()
        with self._lock:
            for work in running:
                for request in work.requests:
                    request.deaths += 1
            poisoned = [request for work in running for request in work.requests if request.deaths >= _DEATHS]
            again = [request for work in (*running, *waiting) for request in work.requests if request not in poisoned]
            for request in reversed(again):
                self.queue.put_back(request)
            left = self._pump(now)
            self._watch_deadline()
        for request in poisoned:
            self._fail(request, Poisoned(f"request {request.id} is refused: ranks died {_DEATHS} times while they ran "
                                         f"it. The last time: {error}"))
        self._settle(left)

    # with the lock held

    def _check_open(self) -> None:
        if self.failure is not None:
            raise type(self.failure)(str(self.failure))
        if self.closing:
            raise UsageError("the orchestrator is closed, or drains: it takes no more requests.")

    def _pump(self, now: float) -> list[Request]:
        """Give waiting requests to free groups; returns those that have left the queue unanswered."""
        left: list[Request] = []
        for group in self.groups:
            while group.free and self.queue:
                taken = self.queue.take(now)
                left += [*taken.expired, *taken.cancelled]
                if taken.request is None:
                    break
                self._begin(group, taken.request)
        return left

    def _begin(self, group: Group, request: Request) -> None:
        inputs, every = request.inputs
        assert group.outputs is not None
        request.attempts += 1
        group.begin(Work([request], inputs, group.outputs.all if every else group.outputs.once))

    def _unanswered(self) -> int:
        return len(self.queue) + sum(len(work.requests) for group in self.groups for work in group.works)

    def _watch_deadline(self) -> None:
        """Have the loop look at the queue when the next deadline passes."""
        deadline = self.queue.next_deadline()
        if deadline is not None and (self._tick is None or deadline < self._tick):
            self._tick = deadline
            self._loop.call_soon(lambda: self._loop.call_later(deadline - time.monotonic(), self._expire))

    # without the lock

    def _expire(self) -> None:
        now = time.monotonic()
        with self._lock:
            self._tick = None
            left = self.queue.expire(now)
            self._watch_deadline()
            self._idle.notify_all()
        self._settle(left)

    def _settle(self, left: Sequence[Request]) -> None:
        """Answer requests that have left the queue without having run: cancelled or too late."""
        for request in left:
            waited = time.monotonic() - request.submitted
            self._fail(request, DeadlineExceeded(f"request {request.id} was not answered within {waited:.3g} s: it "
                                                 f"waited for a free rank. Send less at once, add replicas, or give "
                                                 f"a longer timeout."))

    def _complete(self, group: Group, work: Work, answers: list[Answer]) -> None:
        error = next((answer for answer in answers if answer.error), None)
        if error is not None:
            for request in work.requests:
                self._fail(request, error_named(error.error, error.text))
            return
        request = work.requests[0]
        if request.future.set_running_or_notify_cancel():
            request.future.set_result(self._result(group, work, answers, request.inputs[1]))

    def _result(self, group: Group, work: Work, answers: list[Answer], every: bool) -> Any:
        outputs = group.outputs
        assert outputs is not None
        leased = not self._arena.crowded
        by_rank = [outputs.arrays(answer, given, region, work.inputs, leased)
                   for answer, given, region in zip(answers, work.given, work.regions, strict=True)]
        if every:
            return [in_order(outputs.specs, found) for found in by_rank]
        return in_order(outputs.specs, {name: array for found in by_rank for name, array in found.items()})

    def _fail(self, request: Request, error: RankmeshError) -> None:
        if request.future.set_running_or_notify_cancel():
            request.future.set_exception(error)
