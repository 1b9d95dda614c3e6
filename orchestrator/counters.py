"""What has become of all requests, in numbers: accepted = answered + failed + cancelled + what waits or runs.

Answered are those whose time in all has been observed.
"""

from __future__ import annotations

import threading
from collections import Counter
from typing import Any, Literal, get_args

from .histogram import Histogram

Count = Literal["accepted", "cancelled", "restarts", "replayed", "batches", "copied_results"]
Time = Literal["queue", "run", "total"]


class Counters:
    """Counts of events, failures by the class of their error, and histograms of seconds. Any thread may count.

    `refused` are requests that were never accepted (QueueFull, InputError and the like), also by class.
    """

    def __init__(self) -> None:
        self._counts: dict[str, int] = dict.fromkeys(get_args(Count), 0)
        self._failed, self._refused = Counter[str](), Counter[str]()
        self._times: dict[str, Histogram] = {name: Histogram() for name in get_args(Time)}
        self._lock = threading.Lock()

    def count(self, what: Count, times: int = 1) -> None:
        """`what` has happened."""
        with self._lock:
            self._counts[what] += times

    def failed(self, error: BaseException) -> None:
        """An accepted request was answered with `error`."""
        with self._lock:
            self._failed[type(error).__name__] += 1

    def refused(self, error: BaseException) -> None:
        """A request was not accepted, for `error`."""
        with self._lock:
            self._refused[type(error).__name__] += 1

    def observe(self, what: Time, seconds: float) -> None:
        """A request has waited, run, or been answered after so many seconds in all."""
        self._times[what].observe(seconds)

    def snapshot(self) -> dict[str, Any]:
        """The histograms, then all counts of one moment, so that none was answered that was not accepted; for JSON."""
        seconds = {name: histogram.snapshot() for name, histogram in self._times.items()}
        with self._lock:
            counts: dict[str, Any] = {**self._counts, "failed": dict(self._failed), "refused": dict(self._refused)}
        return {**counts, "answered": seconds["total"]["count"], "seconds": seconds}
