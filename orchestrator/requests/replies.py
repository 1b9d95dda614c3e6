"""Replies: end requests with a result or an error, and count them."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from typing import NamedTuple

from ...comm.errors import DeadlineExceeded, Poisoned, RankmeshError
from ...comm.serving.caller_slots import NO_SLOT, CallerSlots
from .journal import Journal
from .metrics import RequestCounters
from .request import AnyResult, Request

_DEATHS = 2
"""A request during which ranks failed as often is refused."""


class Refusal(NamedTuple):
    """A request that is to end with an error; `Replies.refuse` carries it out."""

    request: Request
    error: RankmeshError


def too_late(request: Request) -> DeadlineExceeded:
    """The error of a request whose deadline has passed while it waited."""
    waited = time.monotonic() - request.submitted
    return DeadlineExceeded(
        f"request {request.id} was not answered within {waited:.3g} s: it waited for a free rank. "
        f"Send less at once, add replicas, or give a longer timeout."
    )


def too_slow(request: Request) -> DeadlineExceeded:
    """The error of a request whose deadline has passed while it ran."""
    waited = time.monotonic() - request.submitted
    return DeadlineExceeded(
        f"request {request.id} was not answered within {waited:.3g} s: it is running, attempt "
        f"{request.attempts}, and its ranks go on. Give a longer timeout."
    )


def poisoned(requests: Sequence[Request], error: RankmeshError) -> list[Refusal]:
    """Refusals of the requests that ran on a failed rank for the second time.

    Counts the failure, `error`, for each of `requests`.
    """
    refusals = []
    for request in requests:
        request.deaths += 1
        if request.deaths >= _DEATHS:
            refusal = Poisoned(
                f"request {request.id} is refused: ranks failed {request.deaths} times while they "
                f"ran it. The last time: {error}"
            )
            refusal.__cause__ = error
            refusals.append(Refusal(request, refusal))
    return refusals


def copy_error(error: RankmeshError) -> RankmeshError:
    """An equal error for one more caller: each that raises it adds to its traceback."""
    same = type(error)(str(error))
    same.__cause__ = error.__cause__
    return same


def wrap_error(error: Exception) -> RankmeshError:
    """An error of Rankmesh as it is, any other as a RankmeshError with the name of its class."""
    if isinstance(error, RankmeshError):
        return error
    return RankmeshError(f"{type(error).__name__}: {error}")


class Replies:
    """Completes the futures of requests; call it without locks, as callers' callbacks run here.

    The first of an answer, a failure, a deadline and a cancellation ends a request: the one that
    takes it out of a dict. The others do nothing. Safe for any thread.
    """

    def __init__(self, counters: RequestCounters, slots: CallerSlots, journal: Journal) -> None:
        """`slots` is where callers may wait; `journal` logs failures."""
        self._counters = counters
        self._slots = slots
        self._journal = journal
        self._open: dict[int, Request] = {}
        self._undone: dict[int, Request] = {}
        self._idle = threading.Condition()
        self._waiters = 0

    def __len__(self) -> int:
        """How many requests have not ended, with all callbacks of their futures."""
        return len(self._undone)

    def expect(self, request: Request) -> None:
        """Accept a request, which is to end here."""
        self._open[request.id] = self._undone[request.id] = request
        self._counters.count("accepted")

    def expected(self) -> list[Request]:
        """All requests that are to end yet."""
        return list(self._open.values())

    def awaits(self, request: Request) -> bool:
        """Whether a request is to end yet."""
        return request.id in self._open

    def give(self, request: Request, result: AnyResult) -> None:
        """End a request with its result."""
        if self._open.pop(request.id, None) is None:
            self._notify(request)  # again: an interrupt may have come before the first time
            return
        if request.keep():
            self._counters.total.observe(time.monotonic() - request.submitted)
            request.set_result(result)
        else:
            self._counters.count("cancelled")
        self._end(request)

    def refuse(self, request: Request, error: RankmeshError) -> None:
        """End a request with an error."""
        if self._open.pop(request.id, None) is None:
            self._notify(request)
            return
        if request.keep():
            self._counters.failed(error)
            request.set_exception(error)
            self._end(request)
            self._journal.refused(request, error)
        else:
            self._counters.count("cancelled")
            self._end(request)

    def withdraw(self, number: int) -> Request | None:
        """End the request `number`, which its caller has cancelled; None if it has ended before."""
        request = self._open.pop(number, None)
        if request is not None:
            request.keep()
            self._counters.count("cancelled")
            self._end(request)
        return request

    def wait_idle(self, seconds: float | None) -> bool:
        """Wait until all requests have ended, at most `seconds`; whether they have."""
        with self._idle:
            self._waiters += 1
            try:
                return self._idle.wait_for(lambda: not self._undone, seconds)
            finally:
                self._waiters -= 1

    def _end(self, request: Request) -> None:
        del self._undone[request.id]
        if self._waiters and not self._undone:
            with self._idle:
                self._idle.notify_all()
        if not request.awake:
            self._notify(request)

    def _notify(self, request: Request) -> None:
        if request.slot != NO_SLOT and not request.awake:
            self._slots.announce(request.slot)
