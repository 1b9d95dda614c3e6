"""The requests that wait for ranks: bounded, and by priority."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import OrderedDict
from collections.abc import Iterator

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
        self.length = 0
        """How many wait: `len` takes longer, and a scheduler asks several times for a request."""

    def __len__(self) -> int:
        return self.length

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
        if self.length >= self._limit:
            raise QueueFull(
                f"request {request.id} is refused: {counted(self.length, 'request')} wait "
                "already, and "
                f"{self._limit} may. Send it again later, add replicas, or raise the limit.",
                self.length,
            )
        if policy.timeout is not None:
            request.wait_until = request.submitted + policy.timeout
        self._add(request)

    @property
    def next_overdue(self) -> float | None:
        """When the first of those that wait has waited as long as its policy allows."""
        return min((one.wait_until for one in self if one.wait_until is not None), default=None)

    def overdue(self, now: float) -> list[Request]:
        """Remove those that have waited longer than their policies allow, for the caller to end.

        Those that their policies only delay go behind all others of their priority.
        """
        refused = []
        for request in [one for one in self if _is_overdue(one, now)]:
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
            self.length -= 1
            if not lane:
                del self._lanes[self._order.pop(0)]
            if not (request.dropped or request.late(now)):
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
        self.length -= 1
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
        self.length += 1
        return lane


def _is_overdue(request: Request, now: float) -> bool:
    return request.wait_until is not None and request.wait_until <= now


def _lane_key(request: Request) -> _LaneKey:
    return -request.priority, request.delayed
