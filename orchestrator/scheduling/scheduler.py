"""Scheduler of one model: decides which request runs on which replica, and until when it may wait.

Between the caller and the ranks: `ModelClient` hands a request in, and the orders leave by the ring
of comm/serving. When a replica dies, its requests come back to the queue.

The scheduler owns the state of the model: the requests that wait, the batches under way on each
replica, and the weights in effect. Each method takes the lock. The steps that need no lock come
back as values: requests to refuse, batches that are finished. The `Dispatcher` carries these out.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Sequence

from ..event_loop.loop import Alarm
from ..requests.metrics import RequestCounters
from ..requests.queue import RequestQueue
from ..requests.replies import Refusal, Replies, too_late, too_slow, wrap_error
from ..requests.request import Request
from .batch import Batch
from .inflight import InflightBatches
from .policies import SchedulingPolicy
from .replica_table import ReplicaCondition, ReplicaTable


class Scheduler(ReplicaTable):
    """Requests and replicas of one model. Safe for any thread."""

    def __init__(
        self,
        replicas: int,
        world_size: int,
        queue: RequestQueue,
        policy: SchedulingPolicy,
        replies: Replies,
        counters: RequestCounters,
        deadline: Alarm,
        batch_due: Alarm,
    ) -> None:
        """`queue` is for requests that wait. The alarms call `expire` and `dispatch` when a
        deadline or a batch is due.
        """
        super().__init__(replicas, world_size)
        self._queue = queue
        self._policy = policy
        self._replies = replies
        self._counters = counters
        self._deadline = deadline
        self._batch_due = batch_due

    def submit(self, request: Request) -> list[Refusal]:
        """Queue a request, or give it to a replica. Raises QueueFull, Draining, Closed."""
        with self._lock:
            self.admission.require_open(request.step)
            now = time.monotonic()
            if request.late(now):
                self._replies.expect(request)
                return [Refusal(request, too_late(request))]
            at_once = self._policy.immediate
            free = self._policy.choose(self._ready) if at_once and not self._queue.length else None
            if free is None:
                self._queue.put(request)
                self._deadline.at(request.wait_until)
            self._replies.expect(request)
            self._deadline.at(request.deadline)
            if free is not None:
                return self._begin(free, [request])
            return [] if at_once else self._dispatch(now)  # where requests wait, no replica is free

    def cancel(self, request: Request) -> None:
        """Forget a request: if it waits it will not run, if it runs its answer is dropped."""
        with self._lock:
            self._queue.remove(request)
            self._recall(request)

    def expire(self) -> list[Refusal]:
        """Refuse the requests whose deadlines have passed; the ranks finish what they run."""
        with self._lock:
            now = time.monotonic()
            refusals = []
            deadlines = []
            for request in self._replies.expected():
                if not request.late(now):
                    deadlines.append(request.deadline)
                    continue
                waited = self._queue.remove(request) or self._recall(request)
                error = too_late(request) if waited else too_slow(request)
                refusals.append(Refusal(request, error))
            refusals += [Refusal(one, too_late(one)) for one in self._queue.overdue(now)]
            for moment in (*deadlines, self._queue.next_overdue):
                self._deadline.at(moment)
            return refusals + self._dispatch(now)

    def dispatch(self) -> list[Refusal]:
        """Give waiting requests to the replicas that are free."""
        with self._lock:
            return self._dispatch(time.monotonic())

    def requeue(
        self, requests: Sequence[Request], refused: Collection[int]
    ) -> tuple[list[Request], list[Refusal]]:
        """Have requests of a failed replica run again, before all others.

        Those that are `refused` (by their ids), or already ended, are left out. The first list has
        the others.
        """
        with self._lock:
            again = []
            for request in reversed(requests):
                if request.id not in refused and self._replies.awaits(request):
                    self._queue.put_back(request)
                    self._counters.count("replayed")
                    again.append(request)
            return again[::-1], self._dispatch(time.monotonic())

    def separate(self, replica: int, batch: Batch) -> list[Refusal]:
        """Have the requests of a batch run again before all others, each alone."""
        with self._lock:
            for request in reversed(batch.requests):
                if self._replies.awaits(request):
                    request.kind = None
                    self._queue.put_back(request)
                    self._counters.count("replayed")
            return self._refill(replica)

    @property
    def waiting(self) -> int:
        """How many requests wait for a replica."""
        return self._queue.length

    @property
    def running(self) -> int:
        """How many batches replicas have."""
        return sum(map(len, self._ready.in_order))

    def open(self, replica: int, inflight: InflightBatches) -> list[Refusal]:
        """A replica takes orders from now on."""
        with self._lock:
            state = self.replicas[replica]
            state.condition = ReplicaCondition.READY
            state.inflight = inflight
            self._ready.add(inflight)
            self._changed.notify_all()
            return self._dispatch(time.monotonic())

    def complete(self, replica: int) -> list[Refusal]:
        """Give a replica that batches have left the next; others have no more room than before."""
        with self._lock:
            return self._refill(replica)

    def switched(self, replica: int) -> list[Refusal]:
        """The ranks of a replica compute with the weights that were ordered."""
        with self._lock:
            inflight = self.replicas[replica].inflight
            if inflight is not None:
                inflight.switching = False
            self._changed.notify_all()
            return self._dispatch(time.monotonic())

    def drain(self, subject: str) -> None:
        """Take no more requests, as `subject` drains: the orchestrator, or one model."""
        with self._lock:
            self.admission.drain(subject)

    def shut_down(self, closed: bool) -> None:
        """Take no more requests and forget those that wait; `closed`: the orchestrator is."""
        with self._lock:
            self.admission.close(closed)
            self._queue.drain()
            self._changed.notify_all()

    def _dispatch(self, now: float) -> list[Refusal]:
        refusals: list[Refusal] = []
        while (free := self._policy.choose(self._ready)) is not None and self._queue.length:
            if not self._fill(free, now, refusals):
                break
        return refusals if self._queue.length else refusals + self._level()

    def _fill(self, inflight: InflightBatches, now: float, refusals: list[Refusal]) -> bool:
        """Give a free replica what is to run next, if something is; adds to `refusals`."""
        together, due, dropped = self._policy.take(self._queue, now)
        refusals += [Refusal(request, too_late(request)) for request in dropped]
        self._batch_due.at(due)
        if together:
            refusals += self._begin(inflight, together)
        return bool(together)

    def _refill(self, replica: int) -> list[Refusal]:
        """Give a replica that batches have left what is to run next."""
        refusals: list[Refusal] = []
        inflight = self.replicas[replica].inflight
        if inflight is not None:
            inflight.order_switch()
            self._ready.note(inflight)
            while self._queue.length and inflight.load is not None:
                if not self._fill(inflight, time.monotonic(), refusals):
                    break
        if len(self._ready.in_order) > 1 and not self._queue.length and not inflight:
            refusals += self._level()
        return refusals

    def _level(self) -> list[Refusal]:
        """Give a replica that has nothing to do the batch that another has been given ahead."""
        idle = self._policy.choose(self._ready) if len(self._ready.in_order) > 1 else None
        if idle is None or idle:
            return []
        batch = self._ready.recall()
        if batch is None:
            return []
        for request in batch.requests:
            request.attempts -= 1
        return self._begin(idle, batch.requests)

    def _recall(self, request: Request) -> bool:
        """Whether a request that was given ahead will not run."""
        inflight = self.inflight_of(request)
        if inflight is None or inflight.recall(request) is None:
            return False
        self._ready.note(inflight)
        return True

    def _begin(self, inflight: InflightBatches, requests: list[Request]) -> list[Refusal]:
        """Give requests to a free replica as one batch; refuses them where that cannot be."""
        for request in requests:
            request.attempts += 1
            request.replica = inflight.replica
        try:
            batch = inflight.give(requests)
        except Exception as error:  # of any class: every request has to end
            return [Refusal(request, wrap_error(error)) for request in requests]
        except BaseException:  # an interrupt of the caller's thread
            for request in reversed(requests):
                if inflight.batch_of(request) is None:
                    self._queue.put_back(request)
            raise
        self._ready.note_given(inflight)
        together = len(requests)
        for request in requests:  # while the ranks are at it
            request.begun, request.together = batch.begun, together
            if request.attempts == 1:
                self._counters.queue.observe(batch.begun - request.submitted)
        if together > 1:
            self._counters.count("batches")
        return []
