"""Later trace: of a request that no task answers, made once the request has ended."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from ...requests.step_times import StepTimes
from .record import RequestRecord, RequestTimes, RequestTrace
from .tracing import Tracing


class _Times(NamedTuple):
    """The times of a request, without its memory: see RequestTimes."""

    submitted: float
    begun: float | None
    replica: int
    together: int
    attempts: int
    steps: tuple[StepTimes, ...]


class LaterTrace:
    """The trace of one request. Nothing that happens meanwhile is a part of it but the run in the
    ranks, whose times are kept. So its spans are made with those of other requests, which takes
    less time than between other work.
    """

    __slots__ = ("_ended", "_headers", "_made", "_times", "_tracing")

    def __init__(self, tracing: Tracing, headers: Mapping[str, str]) -> None:
        self._tracing, self._headers = tracing, headers
        self._times: _Times | None = None
        self._ended = 0.0
        self._made: RequestTrace | None = None

    @property
    def id(self) -> str:
        """See RequestTrace; empty before the end."""
        return "" if self._made is None else self._made.id

    def enter(self) -> None:
        """See RequestTrace: there is no task."""

    def ran(self, request: RequestTimes, ended: float) -> None:
        """See RequestTrace."""
        together, attempts, steps = request.together, request.attempts, request.steps
        self._ended = ended
        self._times = _Times(
            request.submitted, request.begun, request.replica, together, attempts, steps
        )

    def end(self, record: RequestRecord) -> None:
        """See RequestTrace."""
        made = self._tracing.begin(record, self._headers)
        if self._times is not None:
            made.ran(self._times, self._ended)
        made.end(record)
        self._made = made
