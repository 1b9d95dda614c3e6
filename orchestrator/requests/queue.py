"""The requests that wait for ranks: bounded, and by priority."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import OrderedDict
from collections.abc import Callable, Iterator
from heapq import heapify, heappop, heappush
from operator import attrgetter

from ...comm.errors import QueueFull
from ...comm.text import counted
from ..config.queue_policy import QueuePolicies
from .request import Request

_LaneKey = tuple[int, bool]
"""The priority of requests, negated, and whether they are delayed: in the order in which they run.
"""


class RequestQueue:
    """First in, first out within a priority, the highest first; a steady stream of high ones keeps
    low ones waiting.

    Not thread safe: the caller holds a lock around every call. Each costs O(log n), apart from what
    it hands back.
    """

    def __init__(self, limit: int, policies: QueuePolicies | None = None) -> None:
        """`limit` is how many may wait; `policies` may bound those of a priority further."""
        self._limit = limit
        self._policies = policies or QueuePolicies()
        self._lanes: dict[_LaneKey, OrderedDict[int, Request]] = {}
        self._order: list[_LaneKey] = []
        self._length = 0
        self._waits = Deadlines(attrgetter("wait_until"))

    def __len__(self) -> int:
        return self._length

    def __iter__(self) -> Iterator[Request]:
        """The requests in the order in which they are to run; the queue must not change
        meanwhile."""
        for key in self._order:
            yield from self._lanes[key].values()

    def put(self, request: Request) -> None:
        """Add a request behind those of its priority; QueueFull where as many wait as may."""
        policy = self._policies.of(request.priority)
        if policy.limit is not None:
            self._require_room(request, policy.limit)
        if self._length >= self._limit:
            raise QueueFull(
                f"request {request.id} is refused: {counted(self._length, 'request')} wait "
                "already, and "
                f"{self._limit} may. Send it again later, add replicas, or raise the limit.",
                self._length,
            )
        if policy.timeout is not None:
            request.wait_until = request.submitted + policy.timeout
        self._add(request)

    @property
    def next_overdue(self) -> float | None:
        """When the first of those that wait has waited as long as its policy allows."""
        return self._waits.next()

    def overdue(self, now: float) -> list[Request]:
        """Remove those that have waited longer than their policies allow, for the caller to end.

        Those that their policies only delay go behind all others of their priority.
        """
        refused = []
        for request in self._waits.passed(now):
            self.remove(request)
            request.wait_until = None
            if self._policies.of(request.priority).delay:
                request.delayed = True
                self._add(request)
            else:
                refused.append(request)
        return refused

    def _require_room(self, request: Request, limit: int) -> None:
        """QueueFull where `limit` requests of a request's priority wait."""
        keys = [(-request.priority, delayed) for delayed in (False, True)]
        waiting = sum(len(self._lanes.get(key, ())) for key in keys)
        if waiting >= limit:
            raise QueueFull(
                f"request {request.id} is refused: {counted(waiting, 'request')} of its priority "
                f"wait already, and {limit} may. Send it again later.",
                waiting,
            )

    def put_back(self, request: Request) -> None:
        """Add one that was taken before in front of those of its priority, whatever the limits."""
        request.wait_until = None
        self._add(request).move_to_end(request.id, last=False)

    def take(self, now: float) -> tuple[Request | None, list[Request]]:
        """Remove the first request that is to run, and those before it that are cancelled or too
        late.

        The caller has to end the latter.
        """
        dropped: list[Request] = []
        while self._order:
            lane = self._lanes[self._order[0]]
            _, request = lane.popitem(last=False)
            self._length -= 1
            self._waits.discard(request)
            if not lane:
                del self._lanes[self._order.pop(0)]
            if not (request.future.cancelled() or request.late(now)):
                return request, dropped
            dropped.append(request)
        return None, dropped

    def remove(self, request: Request) -> bool:
        """Remove a request; False where it does not wait here."""
        key = _lane_key(request)
        lane = self._lanes.get(key)
        if lane is None or lane.pop(request.id, None) is None:
            return False
        if not lane:
            del self._lanes[key]
            del self._order[bisect_left(self._order, key)]
        self._length -= 1
        self._waits.discard(request)
        return True

    def drain(self) -> list[Request]:
        """Remove all, and hand them back in order."""
        waiting = list(self)
        for request in waiting:
            self.remove(request)
        return waiting

    def _add(self, request: Request) -> OrderedDict[int, Request]:
        key = _lane_key(request)
        lane = self._lanes.get(key)
        if lane is None:
            lane = self._lanes[key] = OrderedDict()
            insort(self._order, key)
        assert request.id not in lane, f"request {request.id} waits already"
        lane[request.id] = request
        self._length += 1
        self._waits.add(request)
        return lane


def _lane_key(request: Request) -> _LaneKey:
    return -request.priority, request.delayed


_SLACK = 64  # what may always be out of date, so that few requests are not sorted again and again


class Deadlines:
    """Requests by deadline; those without one are taken and never named. O(log n) each, amortised.
    Not thread safe.
    """

    def __init__(
        self, deadline: Callable[[Request], float | None] = attrgetter("deadline")
    ) -> None:
        self._deadline = deadline
        self._watched: dict[int, Request] = {}
        self._heap: list[tuple[float, int]] = []  # also of requests that are not watched any more

    def add(self, request: Request) -> bool:
        """Watch a request; whether none has an earlier deadline, of all that are or were
        watched."""
        deadline = self._deadline(request)
        if deadline is None:
            return False
        self._watched[request.id] = request
        heappush(self._heap, (deadline, request.id))
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
