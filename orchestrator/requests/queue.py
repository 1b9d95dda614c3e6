"""The requests that wait for ranks: bounded, and by priority."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import OrderedDict
from collections.abc import Iterator
from heapq import heapify, heappop, heappush

from ...comm.errors import QueueFull
from ...comm.text import counted
from .request import Request


class RequestQueue:
    """First in, first out within a priority, the highest first; a steady stream of high ones keeps
    low ones waiting.

    Not thread safe: the caller holds a lock around every call. Each costs O(log n), apart from what
    it hands back.
    """

    def __init__(self, limit: int) -> None:
        """`limit` is how many may wait."""
        self._limit = limit
        self._lanes: dict[int, OrderedDict[int, Request]] = {}
        self._order: list[int] = []  # the lanes' priorities, negated: highest first
        self._length = 0

    def __len__(self) -> int:
        return self._length

    def __iter__(self) -> Iterator[Request]:
        """The requests in the order in which they are to run; the queue must not change
        meanwhile."""
        for negated in self._order:
            yield from self._lanes[-negated].values()

    def put(self, request: Request) -> None:
        """Add a request behind those of its priority; QueueFull where `limit` wait already."""
        if self._length >= self._limit:
            raise QueueFull(
                f"request {request.id} is refused: {counted(self._length, 'request')} wait "
                "already, and "
                f"{self._limit} may. Send it again later, add replicas, or raise the limit.",
                self._length,
            )
        self._add(request)

    def put_back(self, request: Request) -> None:
        """Add one that was taken before in front of those of its priority, whatever the limit."""
        self._add(request).move_to_end(request.id, last=False)

    def take(self, now: float) -> tuple[Request | None, list[Request]]:
        """Remove the first request that is to run, and those before it that are cancelled or too
        late.

        The caller has to end the latter.
        """
        dropped: list[Request] = []
        while self._order:
            lane = self._lanes[-self._order[0]]
            _, request = lane.popitem(last=False)
            self._length -= 1
            if not lane:
                del self._lanes[-self._order.pop(0)]
            if not (request.future.cancelled() or request.late(now)):
                return request, dropped
            dropped.append(request)
        return None, dropped

    def remove(self, request: Request) -> bool:
        """Remove a request; False where it does not wait here."""
        lane = self._lanes.get(request.priority)
        if lane is None or lane.pop(request.id, None) is None:
            return False
        if not lane:
            del self._lanes[request.priority]
            del self._order[bisect_left(self._order, -request.priority)]
        self._length -= 1
        return True

    def drain(self) -> list[Request]:
        """Remove all, and hand them back in order."""
        waiting = list(self)
        for request in waiting:
            self.remove(request)
        return waiting

    def _add(self, request: Request) -> OrderedDict[int, Request]:
        lane = self._lanes.get(request.priority)
        if lane is None:
            lane = self._lanes[request.priority] = OrderedDict()
            insort(self._order, -request.priority)
        assert request.id not in lane, f"request {request.id} waits already"
        lane[request.id] = request
        self._length += 1
        return lane


_SLACK = 64  # what may always be out of date, so that few requests are not sorted again and again


class Deadlines:
    """Requests by deadline; those without one are taken and never named. O(log n) each, amortised.
    Not thread safe.
    """

    def __init__(self) -> None:
        self._watched: dict[int, Request] = {}
        self._heap: list[tuple[float, int]] = []  # also of requests that are not watched any more

    def add(self, request: Request) -> bool:
        """Watch a request; whether none has an earlier deadline, of all that are or were
        watched."""
        if request.deadline is None:
            return False
        self._watched[request.id] = request
        heappush(self._heap, (request.deadline, request.id))
        return self._heap[0][1] == request.id

    def discard(self, request: Request) -> None:
        """Watch it no more, if it was."""
        self._watched.pop(request.id, None)
        if len(self._heap) > 2 * len(self._watched) + _SLACK:
            self._heap = [
                (deadline, number) for deadline, number in self._heap if number in self._watched
            ]
            heapify(self._heap)

    def next(self) -> float | None:
        """The earliest deadline; None where there is none."""
        while self._heap and self._heap[0][1] not in self._watched:
            heappop(self._heap)
        return self._heap[0][0] if self._heap else None

    def passed(self, now: float) -> list[Request]:
        """The requests whose deadline is `now` or was before, earliest first; they are watched no
        more.
        """
        found: list[Request] = []
        while (deadline := self.next()) is not None and deadline <= now:
            found.append(self._watched.pop(heappop(self._heap)[1]))
        return found
