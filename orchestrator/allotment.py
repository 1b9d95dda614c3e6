"""Which waiting request goes to which group of ranks and when, and until when each may wait and run."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Sequence
from math import inf

from ..comm.errors import RankmeshError
from .assembly import Assembly
from .counters import Counters
from .deadlines import Deadlines
from .group import Group
from .loop import Alarm, Loop
from .queue import RequestQueue
from .refusals import as_ours, too_late, too_slow
from .replies import Replies
from .request import Request
from .work import Work

Left = tuple[Request, RankmeshError]
"""A request that will not run, and why; it must be told, by whoever gets this."""


class Allotment:
    """The queue of a model and what its groups have of it. Every call holds the groups' lock."""

    def __init__(self, groups: Sequence[Group], limit: int, counters: Counters, replies: Replies, loop: Loop,
                 expire: Callable[[], None], pump: Callable[[], None]) -> None:
        """`limit` requests may wait. The loop calls `expire` when a deadline passes, `pump` when a batch is due."""
        self.queue = RequestQueue(limit)
        self.assembly: Assembly | None = None
        self._groups, self._counters, self._replies = groups, counters, replies
        self._running = Deadlines()
        self._deadline, self._batch_due = Alarm(loop, expire), Alarm(loop, pump)

    def put(self, request: Request) -> list[Left]:
        """A new request. Raises QueueFull."""
        now = time.monotonic()
        if (left := self._put_through(request, now)) is None:
            self.queue.put(request)
            self._replies.expect(request)
            left = self.pump(now)
        self._watch()
        return left

    def _put_through(self, request: Request, now: float) -> list[Left] | None:
        """As `put`, where nothing is before the request and a group is free; else None."""
        if self.queue or self.assembly is None or request.kind is not None or request.late(now):
            return None
        group = self._freest()
        if group is None:
            return None
        self._replies.expect(request)
        return self._begin(group, self.assembly, [request])

    def put_back(self, requests: Sequence[Request], refused: Collection[int]) -> list[Left]:
        """Have requests run again, before all others: those that are still awaited, and are not refused."""
        for request in reversed(requests):
            self._running.discard(request)
            if request.id not in refused and self._replies.awaits(request):
                self.queue.put_back(request)
                self._counters.count("replayed")
        left = self.pump(time.monotonic())
        self._watch()
        return left

    def done(self, work: Work) -> list[Left]:
        """A work has left its group, which thus has room for another."""
        for request in work.requests:
            self._running.discard(request)
        return self.pump(time.monotonic())

    def forget(self, request: Request) -> None:
        """Nobody waits for a request any more: if it waits it will not run, if it runs its answer is dropped."""
        self.queue.remove(request)
        self._running.discard(request)
        self._recalled(request)

    def expired(self) -> list[Left]:
        """The requests whose deadlines have passed; those that run do so to their end."""
        now = time.monotonic()
        left: list[Left] = [(request, too_late(request)) for request in self.queue.expire(now)]
        left += [(request, too_late(request) if self._recalled(request) else too_slow(request))
                 for request in self._running.passed(now)]
        self._watch()
        return left

    def clear(self) -> None:
        """Forget all requests."""
        self.queue.drain()
        self._running = Deadlines()

    def pump(self, now: float) -> list[Left]:
        """Give waiting requests to free groups."""
        left: list[Left] = []
        while (group := self._freest()) is not None and self.queue and self.assembly is not None:
            together, until, expired, cancelled = self.assembly.take(self.queue, now)
            if expired or cancelled:
                left += [(request, too_late(request)) for request in (*expired, *cancelled)]
            if until is not None:
                self._batch_due.at(until)
            if not together:
                break
            left += self._begin(group, self.assembly, together)
        return left if self.queue or len(self._groups) == 1 else left + self._levelled()

    def _levelled(self) -> list[Left]:
        """Give a group that has nothing to do what another has ahead."""
        idle = self._freest()
        if idle is None or len(idle.works) or self.assembly is None:
            return []
        for group in self._groups:
            work = group.works.recall()
            if work is not None:
                for request in work.requests:
                    request.attempts -= 1
                    self._running.discard(request)
                return self._begin(idle, self.assembly, work.requests)
        return []

    def _recalled(self, request: Request) -> bool:
        """Whether a request that was given ahead will not run."""
        return request.replica >= 0 and self._groups[request.replica].works.recall(request) is not None

    def _freest(self) -> Group | None:
        """Of the groups that take a work now, the first of those with the fewest."""
        freest, least = None, inf
        for group in self._groups:
            load = group.load
            if load is not None and load < least:
                freest, least = group, load
        return freest

    def _begin(self, group: Group, assembly: Assembly, requests: list[Request]) -> list[Left]:
        """Give requests to a free group as one work; those that cannot be given."""
        assert group.outputs is not None
        given = group.outputs.all if requests[0].inputs[1] else group.outputs.once
        for request in requests:
            request.attempts, request.replica = request.attempts + 1, group.index
        try:
            group.begin(work := Work(requests, assembly.joined(requests), given))
        except Exception as error:  # whatever it is: no request may be forgotten
            return [(request, as_ours(error)) for request in requests]
        except BaseException:  # an interrupt of the caller whose thread this is
            for request in reversed(requests):
                if not group.works.run(request):
                    self.queue.put_back(request)
            raise
        for request in requests:  # while the ranks are at it
            self._running.add(request)
            if request.attempts == 1:
                self._counters.observe("queue", work.begun - request.submitted)
        if len(requests) > 1:
            self._counters.count("batches")
        return []

    def _watch(self) -> None:
        """Have the loop look when the next deadline passes, of a request that waits or runs."""
        waiting, running = self.queue.next_deadline(), self._running.next()
        self._deadline.at(running if waiting is None else waiting if running is None else min(waiting, running))
