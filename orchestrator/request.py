"""One request, from its arrival to its answer."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

from ..comm.serving.seats import NO_SEAT


class Promise(Future[Any]):
    """The future of one request: as long as it is not done it can be cancelled, before the run and during it."""

    awake = False  # see Outcome

    def __init__(self, number: int, cancelled: Callable[[int], None]) -> None:
        """`cancelled` is told the request's number: whoever keeps this does not keep the request's memory."""
        super().__init__()
        self._request_number, self._tell = number, cancelled

    def cancel(self) -> bool:
        """See Future.cancel."""
        if not super().cancel():
            return False
        self._tell(self._request_number)
        return True


class Outcome:
    """As much of a future as a thread needs that waits at a seat: no lock, as whoever ends the request does so once."""

    __slots__ = ("_cancelled", "_done", "_error", "_number", "_result", "_tell", "awake")

    def __init__(self, number: int, cancelled: Callable[[int], None]) -> None:
        """See Promise."""
        self._number, self._tell = number, cancelled
        self._cancelled = self._done = False
        self.awake = False
        """Whether its thread will look whether it is done before it sleeps, and need not be told."""

        self._result: Any = None
        self._error: BaseException | None = None

    def cancel(self) -> bool:
        """See Future.cancel."""
        if self._done:
            return False
        self._cancelled = self._done = True
        self._tell(self._number)
        return True

    def cancelled(self) -> bool:
        """See Future.cancelled."""
        return self._cancelled

    def done(self) -> bool:
        """See Future.done."""
        return self._done

    def set_running_or_notify_cancel(self) -> bool:
        """See Future.set_running_or_notify_cancel."""
        return not self._cancelled

    def set_result(self, result: Any) -> None:
        """See Future.set_result."""
        self._result, self._done = result, True

    def set_exception(self, error: BaseException) -> None:
        """See Future.set_exception."""
        self._error, self._done = error, True

    def result(self) -> Any:
        """Of what is done, once: the result, or its error raised."""
        error, self._error = self._error, None
        if error is None:
            return self._result
        try:
            raise error
        finally:
            del error  # or the error would keep, by its traceback, itself and the request's memory


@dataclass(slots=True, eq=False)
class Request:
    """What a caller asked, and what has become of it; times are seconds of `time.monotonic`.

    A `deadline` of None is none. `attempts` counts how often it was given to ranks, `deaths` how often a rank died
    meanwhile. It may run together with requests of its `kind` (None: with none), and takes `rows` of a batch.
    """

    id: int
    inputs: Any
    future: Promise | Outcome
    submitted: float
    priority: int = 0
    deadline: float | None = None
    attempts: int = 0
    deaths: int = 0
    kind: Hashable = None
    rows: int = 1
    seat: int = NO_SEAT
    """Where the thread that sends it waits for its answer."""

    replica: int = -1
    """The group that it was given to last."""

    def late(self, now: float) -> bool:
        """Whether its deadline has passed."""
        return self.deadline is not None and self.deadline <= now
