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
        self._deadlines = Deadlines()
        self._deadline, self._batch_due = Alarm(loop, expire), Alarm(loop, pump)

    def put(self, request: Request) -> list[Left]:
        """A new request. Raises QueueFull."""
        assembly = self.assembly
        assert assembly is not None
        now = time.monotonic()
        if request.late(now):
            self._replies.expect(request)
            return [(request, too_late(request))]
        group = None if self.queue or assembly.batches else self._freest()
        if group is None:
            self.queue.put(request)
        self._replies.expect(request)
        if self._deadlines.add(request):
            self._deadline.at(request.deadline)
        if group is not None:
            return self._begin(group, assembly, [request])
        return self.pump(now) if assembly.batches else []  # where something waits, no group is free

    def put_back(self, requests: Sequence[Request], refused: Collection[int]) -> tuple[list[Request], list[Left]]:
        """Have requests run again, before all others: those that are still awaited, and are not refused.

        They are the first that is returned.
        """
        again: list[Request] = []
        for request in reversed(requests):
            if request.id not in refused and self._replies.awaits(request):
                self.queue.put_back(request)
                self._counters.count("replayed")
                again.append(request)
            else:
                self._deadlines.discard(request)
        return again[::-1], self.pump(time.monotonic())

    def done(self, group: Group, work: Work) -> list[Left]:
        """A work has left its group, which thus has room for another; the other groups have no more than before."""
        for request in work.requests:
            self._deadlines.discard(request)
        now = time.monotonic()
        left: list[Left] = []
        while group.load is not None and self.queue and self._fill(group, now, left):
            pass
        return left if self.queue or len(group.works) else left + self._levelled()

    def forget(self, request: Request) -> None:
        """Nobody waits for a request any more: if it waits it will not run, if it runs its answer is dropped."""
        self.queue.remove(request)
        self._deadlines.discard(request)
        self._recalled(request)

    def expired(self) -> list[Left]:
        """The requests whose deadlines have passed; those that run do so to their end. Others may take their places."""
        now = time.monotonic()
        left: list[Left] = []
        for request in self._deadlines.passed(now):
            idle = self.queue.remove(request) or self._recalled(request)
            left.append((request, too_late(request) if idle else too_slow(request)))
        self._deadline.at(self._deadlines.next())
        return left + self.pump(now)

    def clear(self) -> None:
        """Forget all requests."""
        self.queue.drain()
        self._deadlines = Deadlines()

    def pump(self, now: float) -> list[Left]:
        """Give waiting requests to free groups."""
        left: list[Left] = []
        while (group := self._freest()) is not None and self.queue and self._fill(group, now, left):
            pass
        return left if self.queue else left + self._levelled()

    def _fill(self, group: Group, now: float, left: list[Left]) -> bool:
        """Give a free group what is to run next, if something is; adds to `left`."""
        assert self.assembly is not None
        together, until, dropped = self.assembly.take(self.queue, now)
        for request in dropped:
            self._deadlines.discard(request)
            left.append((request, too_late(request)))
        if until is not None:
            self._batch_due.at(until)
        if together:
            left += self._begin(group, self.assembly, together)
        return bool(together)

    def _levelled(self) -> list[Left]:
        """Give a group that has nothing to do what another has ahead."""
        idle = self._freest() if len(self._groups) > 1 else None
        if idle is None or len(idle.works) or self.assembly is None:
            return []
        for group in self._groups:
            work = group.works.recall()
            if work is not None:
                for request in work.requests:
                    request.attempts -= 1
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
            for request in requests:
                self._deadlines.discard(request)
            return [(request, as_ours(error)) for request in requests]
        except BaseException:  # an interrupt of the caller whose thread this is
            for request in reversed(requests):
                if not group.works.run(request):
                    self.queue.put_back(request)
            raise
        for request in requests:  # while the ranks are at it
            if request.attempts == 1:
                self._counters.observe("queue", work.begun - request.submitted)
        if len(requests) > 1:
            self._counters.count("batches")
        return []
