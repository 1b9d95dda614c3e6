"""The requests that wait for ranks: bounded, by priority, each no longer than its deadline allows."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import OrderedDict
from collections.abc import Iterator
from typing import NamedTuple

from ..comm.errors import QueueFull
from .deadlines import Deadlines
from .request import Request


class Taken(NamedTuple):
    """The request to run next, and those that left the queue unanswered: each must be, by whoever took."""

    request: Request | None
    expired: list[Request]
    cancelled: list[Request]


class RequestQueue:
    """First in, first out within a priority, the highest first; a steady stream of high ones keeps low ones waiting.

    Not thread safe: the caller holds a lock around every call. Each costs O(log n), apart from what it hands back.
    """

    def __init__(self, limit: int) -> None:
        """`limit` is how many may wait."""
        self._limit = limit
        self._lanes: dict[int, OrderedDict[int, Request]] = {}
        self._order: list[int] = []  # the lanes' priorities, negated: highest first
        self._length = 0
        self._deadlines = Deadlines()

    def __len__(self) -> int:
        return self._length

    def __iter__(self) -> Iterator[Request]:
        """The requests in the order in which they are to run; the queue must not change meanwhile."""
        for negated in self._order:
            yield from self._lanes[-negated].values()

    def put(self, request: Request) -> None:
        """Add a request behind those of its priority; QueueFull where `limit` wait already."""
        if self._length >= self._limit:
            raise QueueFull(f"request {request.id} is refused: {self._length} requests wait already, and {self._limit} "
                            f"may. Send it again later, add replicas, or raise the limit.", self._length)
        self._add(request)

    def put_back(self, request: Request) -> None:
        """Add one that was taken before in front of those of its priority, whatever the limit."""
        self._add(request).move_to_end(request.id, last=False)

    def take(self, now: float) -> Taken:
        """The first request that nobody has cancelled, all past their deadline, the cancelled ones before it."""
        expired, cancelled = self.expire(now), list[Request]()
        while self._order:
            request = next(iter(self._lanes[-self._order[0]].values()))
            self.remove(request)
            if not request.future.cancelled():
                return Taken(request, expired, cancelled)
            cancelled.append(request)
        return Taken(None, expired, cancelled)

    def expire(self, now: float) -> list[Request]:
        """Remove all whose deadline has passed, wherever they stand, and hand them back, earliest deadline first."""
        expired = self._deadlines.passed(now)
        for request in expired:
            self.remove(request)
        return expired

    def remove(self, request: Request) -> bool:
        """Remove a request; False where it does not wait here."""
        lane = self._lanes.get(request.priority)
        if lane is None or lane.pop(request.id, None) is None:
            return False
        if not lane:
            del self._lanes[request.priority]
            del self._order[bisect_left(self._order, -request.priority)]
        self._length -= 1
        self._deadlines.discard(request)
        return True

    def drain(self) -> list[Request]:
        """Remove all, and hand them back in order."""
        waiting = list(self)
        for request in waiting:
            self.remove(request)
        return waiting

    def next_deadline(self) -> float | None:
        """The earliest deadline of those that wait; None where there is none."""
        return self._deadlines.next()

    def _add(self, request: Request) -> OrderedDict[int, Request]:
        lane = self._lanes.get(request.priority)
        if lane is None:
            lane = self._lanes[request.priority] = OrderedDict()
            insort(self._order, -request.priority)
        assert request.id not in lane, f"request {request.id} waits already"
        lane[request.id] = request
        self._length += 1
        self._deadlines.add(request)
        return lane
