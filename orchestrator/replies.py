"""How requests end: answered, failed or cancelled, and counted as such."""

from __future__ import annotations

import time
from typing import Any

from ..comm.errors import RankmeshError
from ..comm.serving.seats import NO_SEAT, Seats
from .counters import Counters
from .journal import Journal
from .request import Request


class Replies:
    """Completes futures; to be called with no lock held, as callers' callbacks run here.

    Whoever comes first, of an answer, a failure, a deadline and a cancellation, ends a request; the others come to
    nothing. Safe for any number of threads: what counts is who takes the request out of a dict.
    """

    def __init__(self, counters: Counters, seats: Seats, journal: Journal) -> None:
        """`seats` is where callers may wait, `journal` hears of failures."""
        self._counters, self._seats, self._journal = counters, seats, journal
        self._open: dict[int, Request] = {}
        self._undone: dict[int, Request] = {}

    def __len__(self) -> int:
        """How many requests have not ended, with all that their callers have attached to it."""
        return len(self._undone)

    def expect(self, request: Request) -> None:
        """A request has been accepted."""
        self._open[request.id] = self._undone[request.id] = request
        self._counters.count("accepted")

    def expected(self) -> list[Request]:
        """All requests that are to end yet."""
        return list(self._open.values())

    def awaits(self, request: Request) -> bool:
        """Whether a request is to end yet."""
        return request.id in self._open

    def give(self, request: Request, result: Any) -> None:
        """The result of a request."""
        if self._open.pop(request.id, None) is None:
            self._tell(request)  # once more: whoever did may have been interrupted before
            return
        if request.future.set_running_or_notify_cancel():
            self._counters.observe("total", time.monotonic() - request.submitted)
            request.future.set_result(result)
        else:
            self._counters.count("cancelled")
        self._end(request)

    def refuse(self, request: Request, error: RankmeshError) -> None:
        """The error that a request ends with."""
        if self._open.pop(request.id, None) is None:
            self._tell(request)
            return
        if request.future.set_running_or_notify_cancel():
            self._counters.failed(error)
            request.future.set_exception(error)
            self._end(request)
            self._journal.refused(request, error)
        else:
            self._counters.count("cancelled")
            self._end(request)

    def withdraw(self, number: int) -> Request | None:
        """The request `number` has been cancelled by its caller; None where it has ended already."""
        request = self._open.pop(number, None)
        if request is not None:
            request.future.set_running_or_notify_cancel()
            self._counters.count("cancelled")
            del self._undone[number]
        return request

    def _end(self, request: Request) -> None:
        del self._undone[request.id]
        self._tell(request)

    def _tell(self, request: Request) -> None:
        if request.seat != NO_SEAT and not request.future.awake:
            self._seats.announce(request.seat)
