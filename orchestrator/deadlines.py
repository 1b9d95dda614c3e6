"""The deadlines of some requests: which have passed, and which comes next."""

from __future__ import annotations

from heapq import heapify, heappop, heappush

from .request import Request

_SLACK = 64  # what may always be out of date, so that few requests are not sorted again and again


class Deadlines:
    """Requests by deadline; those without one are taken and never named. O(log n) each, amortised. Not thread safe."""

    def __init__(self) -> None:
        self._watched: dict[int, Request] = {}
        self._heap: list[tuple[float, int]] = []  # also of requests that are not watched any more

    def add(self, request: Request) -> bool:
        """Watch a request; whether none has an earlier deadline, of all that are or were watched."""
        if request.deadline is None:
            return False
        self._watched[request.id] = request
        heappush(self._heap, (request.deadline, request.id))
        return self._heap[0][1] == request.id

    def discard(self, request: Request) -> None:
        """Watch it no more, if it was."""
        self._watched.pop(request.id, None)
        if len(self._heap) > 2 * len(self._watched) + _SLACK:
            self._heap = [(deadline, number) for deadline, number in self._heap if number in self._watched]
            heapify(self._heap)

    def next(self) -> float | None:
        """The earliest deadline; None where there is none."""
        while self._heap and self._heap[0][1] not in self._watched:
            heappop(self._heap)
        return self._heap[0][0] if self._heap else None

    def passed(self, now: float) -> list[Request]:
        """The requests whose deadline is `now` or was before, earliest first; they are watched no more."""
        found: list[Request] = []
        while (deadline := self.next()) is not None and deadline <= now:
            found.append(self._watched.pop(heappop(self._heap)[1]))
        return found
