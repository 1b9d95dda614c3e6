"""Metrics of one model: counts of requests, failures by class, and histograms of latencies.

accepted = answered + failed + cancelled + those that wait or run. Answered are the requests whose
total time has been observed.
"""

from __future__ import annotations

import threading
from bisect import bisect_left
from collections import Counter, deque
from itertools import accumulate
from typing import Literal, TypedDict, get_args

import numpy as np

_PER_DECADE = 5
BOUNDS = tuple(
    float(f"{10 ** (step / _PER_DECADE):.3g}")
    for step in range(-5 * _PER_DECADE, 2 * _PER_DECADE + 1)
)
"""The buckets' upper ends in seconds, inclusive: 10 microseconds to 100 s, five per decade."""

_ENDS = np.array(BOUNDS)
_UNCOUNTED = 256


class HistogramSnapshot(TypedDict):
    """Durations in seconds: how many, their sum, the longest, quantiles, and the buckets.

    A bucket is [upper end in seconds, count], and only those that are not empty are there. The last
    one's end, beyond all bounds, is None. Quantiles are interpolated in their bucket, None where
    nothing has been observed.
    """

    count: int
    sum: float
    max: float
    p50: float | None
    p90: float | None
    p99: float | None
    buckets: list[list[float | None]]


class LatencyMetrics(TypedDict):
    """Seconds of requests in the queue and in all, and of batches in the ranks."""

    queue: HistogramSnapshot
    run: HistogramSnapshot
    total: HistogramSnapshot


class RequestMetrics(TypedDict):
    """Counts of requests since the start; `failed` and `refused` by the class of the error.

    Refused are requests that were never accepted (QueueFull, InputError and others). `batches` are
    those of several requests; `copied_results` were copied, as callers held too many.
    """

    accepted: int
    answered: int
    cancelled: int
    restarts: int
    replayed: int
    batches: int
    copied_results: int
    failed: dict[str, int]
    refused: dict[str, int]
    seconds: LatencyMetrics


class ModelMetrics(RequestMetrics):
    """Metrics of one model: `queue_depth` requests wait, `running` batches are with ranks.

    `weights_version` is how many updates of its weights are in effect.
    """

    queue_depth: int
    running: int
    weights_version: int


class Histogram:
    """Durations in seconds, in fixed buckets. Safe for any thread.

    Observations are counted many at once, which costs each of them less.
    """

    __slots__ = ("_counts", "_lock", "_max", "_seen", "_sum")

    def __init__(self) -> None:
        self._counts = np.zeros(len(BOUNDS) + 1, np.int64)  # the last: beyond all bounds
        self._sum = 0.0
        self._max = 0.0
        self._lock = threading.Lock()
        self._seen: deque[float] = deque()

    def observe(self, seconds: float) -> None:
        """Count one duration."""
        self._seen.append(seconds)
        if len(self._seen) >= _UNCOUNTED:
            with self._lock:
                self._count()

    def _count(self) -> None:
        seen = [self._seen.popleft() for _ in range(len(self._seen))]
        if seen:
            places = np.searchsorted(_ENDS, seen)
            self._counts += np.bincount(places, minlength=len(self._counts))
            self._sum += sum(seen)
            self._max = max(self._max, *seen)

    def snapshot(self) -> HistogramSnapshot:
        """All observations so far."""
        with self._lock:
            self._count()
            counts: list[int] = self._counts.tolist()
            total = self._sum
            most = self._max
        buckets = zip((*BOUNDS, None), counts, strict=True)
        return {
            "count": sum(counts),
            "sum": total,
            "max": most,
            "p50": _quantile(0.5, counts, most),
            "p90": _quantile(0.9, counts, most),
            "p99": _quantile(0.99, counts, most),
            "buckets": [[bound, count] for bound, count in buckets if count],
        }


def _quantile(share: float, counts: list[int], most: float) -> float | None:
    wanted = share * sum(counts)
    if not wanted:
        return None
    ends = list(accumulate(counts))
    bucket = bisect_left(ends, wanted)
    low = BOUNDS[bucket - 1] if bucket else 0.0
    high = min(BOUNDS[bucket], most) if bucket < len(BOUNDS) else most
    return low + (high - low) * (wanted - ends[bucket] + counts[bucket]) / counts[bucket]


Count = Literal["accepted", "cancelled", "restarts", "replayed", "batches", "copied_results"]


class RequestCounters:
    """Counts of events, failures by the class of their error, and histograms of seconds.

    Safe for any thread.
    """

    def __init__(self) -> None:
        self._counts: dict[Count, int] = dict.fromkeys(get_args(Count), 0)
        self._failed = Counter[str]()
        self._refused = Counter[str]()
        self.queue = Histogram()
        """How long requests have waited."""

        self.run = Histogram()
        """How long batches have run."""

        self.total = Histogram()
        """How long requests have taken in all."""

        self._lock = threading.Lock()

    def count(self, what: Count, times: int = 1) -> None:
        """Count an event."""
        with self._lock:
            self._counts[what] += times

    def failed(self, error: BaseException) -> None:
        """Count an accepted request that ended with `error`."""
        with self._lock:
            self._failed[type(error).__name__] += 1

    def refused(self, error: BaseException) -> None:
        """Count a request that was not accepted, for `error`."""
        with self._lock:
            self._refused[type(error).__name__] += 1

    def snapshot(self) -> RequestMetrics:
        """The histograms, then all counts of one moment: what is answered is accepted, too."""
        seconds: LatencyMetrics = {
            "queue": self.queue.snapshot(),
            "run": self.run.snapshot(),
            "total": self.total.snapshot(),
        }
        with self._lock:
            counts = self._counts
            return {
                "accepted": counts["accepted"],
                "cancelled": counts["cancelled"],
                "restarts": counts["restarts"],
                "replayed": counts["replayed"],
                "batches": counts["batches"],
                "copied_results": counts["copied_results"],
                "failed": dict(self._failed),
                "refused": dict(self._refused),
                "answered": seconds["total"]["count"],
                "seconds": seconds,
            }
