"""Record of one request: collects what the access log tells of it."""

from __future__ import annotations

import time
from contextvars import ContextVar
from typing import Protocol

from ...requests.step_times import StepTimes

CLOSED_BY_CLIENT = "499"
"""The status of a request whose client went away, as nginx has it."""


class RequestTimes(Protocol):
    """The times of a request to a model, in seconds of the monotonic clock."""

    @property
    def submitted(self) -> float:
        """When it was sent."""

    @property
    def begun(self) -> float | None:
        """When ranks were given it last, None before."""

    @property
    def replica(self) -> int:
        """The replica that it was given to, -1 before."""

    @property
    def together(self) -> int:
        """How many requests that replica was given as one batch."""

    @property
    def attempts(self) -> int:
        """How often ranks were given it."""

    @property
    def steps(self) -> tuple[StepTimes, ...]:
        """Its steps that have ended, of a request to a chain."""


class RequestTrace(Protocol):
    """The trace of one request, as RequestSpans makes it."""

    @property
    def id(self) -> str:
        """The id of the trace, 32 hexadecimal digits."""

    def enter(self) -> None:
        """Have all that this task does from here on be part of the request."""

    def ran(self, request: RequestTimes, ended: float) -> None:
        """A request to a model has ended, at a second of `time.monotonic`."""

    def end(self, record: RequestRecord) -> None:
        """The request has ended, at the moment that its record tells."""


class RequestRecord:
    """One request; `id` is that of its message, or of its header, or made. Times are in seconds.

    Of a stream, `queue_seconds` and `run_seconds` are the sums of its requests'. Values that most
    requests have are those of the class, so that a record costs little to make.
    """

    bytes_out = 0
    token = ""  # nosec B105  # the name of a client's token; none
    model = ""
    version = ""
    status = CLOSED_BY_CLIENT
    trace_id = ""
    trace: RequestTrace | None = None
    queue_seconds: float | None = None
    """Before ranks were given it, the last time; None where no model was asked."""

    run_seconds: float | None = None
    """From then until their answer was taken; None where no rank was given it."""

    ended = 0.0

    def __init__(
        self, client: str, method: str, path: str, id: str, bytes_in: int | None = None
    ) -> None:
        self.client, self.method, self.path = client, method, path
        self.id, self.bytes_in = id, bytes_in
        self.began = time.monotonic()

    def ran(self, request: RequestTimes) -> None:
        """A request to a model has ended, however that was."""
        now = time.monotonic()
        begun = request.begun
        waited = (now if begun is None else begun) - request.submitted
        self.queue_seconds = waited + (self.queue_seconds or 0.0)
        if begun is not None:
            self.run_seconds = now - begun + (self.run_seconds or 0.0)
        if self.trace is not None:
            self.trace.ran(request, now)


CURRENT: ContextVar[RequestRecord | None] = ContextVar("rankmesh_request", default=None)
"""The record of the request that a task answers; None where there is no observer."""
