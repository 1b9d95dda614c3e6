"""One request, from its arrival to its answer."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

from ..comm.serving.seats import NO_SEAT


class Promise(Future[Any]):
    """The future of one request: as long as it is not done it can be cancelled, before the run and during it."""

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


@dataclass(slots=True, eq=False)
class Request:
    """What a caller asked, and what has become of it; times are seconds of `time.monotonic`.

    A `deadline` of None is none. `attempts` counts how often it was given to ranks, `deaths` how often a rank died
    meanwhile. It may run together with requests of its `kind` (None: with none), and takes `rows` of a batch.
    """

    id: int
    inputs: Any
    future: Future[Any]
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
