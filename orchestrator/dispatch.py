"""From the queue to the groups of ranks, and from their answers to the callers."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Future
from typing import Any

from ..comm.errors import DeadlineExceeded, Poisoned, RankmeshError, UsageError, error_named
from ..comm.serving.orders import Answer
from ..comm.serving.tensor_arena import OwnedArena
from .assembly import Assembly
from .buffers import Buffers
from .counters import Counters
from .group import Condition, Group, Work
from .inputs import InputSpecs
from .loop import Loop
from .queue import RequestQueue
from .replies import Replies
from .request import Request
from .settings import ModelSettings

Left = tuple[Request, RankmeshError | None]
"""A request that will not run, and why; None: it was cancelled, or its deadline has passed."""

_DEATHS = 2
"""A request during which ranks died as often as this is refused."""


class Dispatcher:
    """The queue of one model and the groups that answer it. `submit` may be called from any thread.

    Futures are completed in the loop's thread, with no lock held.
    """

    def __init__(self, settings: ModelSettings, arena: OwnedArena, loop: Loop) -> None:
        self.settings, self._arena, self._loop = settings, arena, loop
        self.groups: list[Group] = []
        self.counters = Counters()
        self._replies = Replies(self.counters)
        self.queue = RequestQueue(settings.queue_limit)
        self._assembly: Assembly | None = None
        self.started = threading.Event()
        self.failure: RankmeshError | None = None
        self.closing = False
        self.lock = threading.Lock()
        self._idle = threading.Condition(self.lock)
        self._number = itertools.count(1)
        self._tick: float | None = None
        self._next_pump: float | None = None

    def submit(self, given: Mapping[str, Any] | Sequence[Any], timeout: float | None, priority: int,
               every: bool) -> Future[Any]:
        """Queue a request; its result is a dict from output name to array, or with `every` one per rank.

        `given` is a mapping from name to array, Buffers, or the arrays in order. Raises InputError, QueueFull.
        """
        try:
            now = time.monotonic()
            inputs = given.taken() if isinstance(given, Buffers) else self.inputs.copied(given)
            kind, rows = self.assembly.kind(inputs, every)
            request = Request(next(self._number), (inputs, every), Future(), now, priority,
                              None if timeout is None else now + timeout, kind=kind, rows=rows)
            with self.lock:
                self._check_open()
                self.queue.put(request)
                self.counters.count("accepted")
                left = self._pump(now)
                self._watch_deadline()
        except RankmeshError as error:
            self.counters.refused(error)
            raise
        self._settle(left)
        return request.future

    @property
    def assembly(self) -> Assembly:
        """What makes works of requests; there once a group has been ready."""
        assert self._assembly is not None
        return self._assembly

    @property
    def inputs(self) -> InputSpecs:
        """What the model takes, likewise."""
        return self.assembly.inputs

    @property
    def unanswered(self) -> int:
        """Requests that wait or run."""
        with self.lock:
            return self._unanswered()

    def wait_started(self) -> None:
        """Wait until all groups are ready; raises what went wrong."""
        self.started.wait()
        if self.failure is not None:
            raise self.failure

    def wait_idle(self, seconds: float | None) -> bool:
        """Take no more requests, and wait until all are answered; whether they were."""
        with self._idle:
            self.closing = True
            return self._idle.wait_for(lambda: not self._unanswered(), seconds)

    def give_up(self, error: RankmeshError) -> None:
        """Answer all that wait or run with `error`, and take no more."""
        with self.lock:
            self.closing, self.failure = True, self.failure or error
            left = self.queue.drain()
            for group in self.groups:
                left += [request for work in group.works for request in work.requests]
                group.works.clear()
            self._idle.notify_all()
        for request in left:
            self._replies.refuse(request, error)

    # Owner, in the loop's thread

    def group_ready(self, group: Group) -> None:
        """See Owner.group_ready."""
        with self.lock:
            if self._assembly is None:
                assert group.epoch is not None
                self._assembly = Assembly(group.epoch.reports[0], self._arena, self.settings.batching,
                                          self.counters)
            left = self._pump(time.monotonic())
        self._settle(left)
        if all(one.condition is not Condition.STARTING for one in self.groups):
            self.started.set()

    def group_answered(self, group: Group, work: Work, answers: list[Answer]) -> None:
        """See Owner.group_answered."""
        with self.lock:
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
        with self.lock:
            for work in running:
                for request in work.requests:
                    request.deaths += 1
            poisoned = [request for work in running for request in work.requests if request.deaths >= _DEATHS]
            again = [request for work in (*running, *waiting) for request in work.requests if request not in poisoned]
            for request in reversed(again):
                self.queue.put_back(request)
            self.counters.count("replayed", len(again))
            self.counters.count("restarts")
            left = self._pump(now)
            self._watch_deadline()
        for request in poisoned:
            self._replies.refuse(request, Poisoned(f"request {request.id} is refused: ranks died {_DEATHS} times while "
                                                   f"they ran it. The last time: {error}"))
        self._settle(left)

    # with the lock held

    def _check_open(self) -> None:
        if self.failure is not None:
            raise type(self.failure)(str(self.failure))
        if self.closing:
            raise UsageError("the orchestrator is closed, or drains: it takes no more requests.")

    def _pump(self, now: float) -> list[Left]:
        """Give waiting requests to free groups; returns those that have left the queue unanswered."""
        left: list[Left] = []
        for group in self.groups:
            while group.free and self.queue:
                taken = self.assembly.take(self.queue, now)
                left += [(request, None) for request in (*taken.expired, *taken.cancelled)]
                if taken.until is not None:
                    self._pump_at(taken.until)
                if not taken.together:
                    break
                try:
                    self._begin(group, taken.together)
                except RankmeshError as error:
                    left += [(request, error) for request in taken.together]
        return left

    def _begin(self, group: Group, requests: list[Request]) -> None:
        assert group.outputs is not None
        for request in requests:
            request.attempts += 1
            if request.attempts == 1:
                self.counters.observe("queue", time.monotonic() - request.submitted)
        if len(requests) > 1:
            self.counters.count("batches")
        every = requests[0].inputs[1]
        group.begin(Work(requests, self.assembly.joined(requests), group.outputs.all if every else group.outputs.once))

    def _pump_at(self, moment: float) -> None:
        """Look again when the first of a batch has waited long enough."""
        if self._next_pump is None or moment < self._next_pump:
            self._next_pump = moment
            self._loop.call_soon(lambda: self._loop.call_later(moment - time.monotonic(), self._pump_again))

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
        with self.lock:
            self._tick = None
            left: list[Left] = [(request, None) for request in self.queue.expire(now)]
            self._watch_deadline()
            self._idle.notify_all()
        self._settle(left)

    def _pump_again(self) -> None:
        with self.lock:
            self._next_pump = None
            left = self._pump(time.monotonic())
        self._settle(left)

    def _settle(self, left: Iterable[Left]) -> None:
        """Answer requests that have left the queue without having run."""
        for request, error in left:
            self._replies.refuse(request, error or _too_late(request))

    def _complete(self, group: Group, work: Work, answers: list[Answer]) -> None:
        self.counters.observe("run", time.monotonic() - work.begun)
        error = next((answer for answer in answers if answer.error), None)
        if error is not None:
            for request in work.requests:
                self._replies.refuse(request, error_named(error.error, error.text))
            return
        try:
            results = self.assembly.results(group, work, answers)
        except RankmeshError as fault:
            for request in work.requests:
                self._replies.refuse(request, fault)
            return
        for request, result in zip(work.requests, results, strict=True):
            self._replies.give(request, result)


def _too_late(request: Request) -> DeadlineExceeded:
    waited = time.monotonic() - request.submitted
    return DeadlineExceeded(f"request {request.id} was not answered within {waited:.3g} s: it waited for a free rank. "
                            f"Send less at once, add replicas, or give a longer timeout.")
