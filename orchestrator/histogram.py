"""How long something took, over many observations: counts in fixed buckets."""

from __future__ import annotations

import threading
from bisect import bisect_left
from collections import deque
from itertools import accumulate
from typing import Any

_PER_DECADE = 5
BOUNDS = tuple(float(f"{10 ** (step / _PER_DECADE):.3g}") for step in range(-5 * _PER_DECADE, 2 * _PER_DECADE + 1))
"""The buckets' upper ends in seconds, inclusive: 10 microseconds to 100 s, five per decade."""

_UNCOUNTED = 64
_QUANTILES = (0.5, 0.9, 0.99)


class Histogram:
    """Durations in seconds. Any thread may observe; they are counted many at once, which costs each less."""

    __slots__ = ("_counts", "_lock", "_max", "_seen", "_sum")

    def __init__(self) -> None:
        self._counts = [0] * (len(BOUNDS) + 1)  # the last has what is beyond all bounds
        self._sum = self._max = 0.0
        self._lock = threading.Lock()
        self._seen: deque[float] = deque()

    def observe(self, seconds: float) -> None:
        """Count one duration."""
        self._seen.append(seconds)
        if len(self._seen) >= _UNCOUNTED:
            with self._lock:
                self._count()

    def _count(self) -> None:
        while self._seen:
            seconds = self._seen.popleft()
            self._counts[bisect_left(BOUNDS, seconds)] += 1
            self._sum += seconds
            self._max = max(self._max, seconds)

    def snapshot(self) -> dict[str, Any]:
        """Plain numbers for JSON: count, sum, max, p50, p90, p99 in seconds, and the buckets that are not empty.

        A bucket is [upper end, count]; the last one's end, beyond all bounds, is None. Quantiles, interpolated in a
        bucket, are None where nothing has been observed.
        """
        with self._lock:
            self._count()
            counts, total, most = list(self._counts), self._sum, self._max
        found: dict[str, Any] = {"count": sum(counts), "sum": total, "max": most}
        found.update({f"p{share * 100:g}": _quantile(share, counts, most) for share in _QUANTILES})
        found["buckets"] = [[bound, count] for bound, count in zip((*BOUNDS, None), counts, strict=True) if count]
        return found


def _quantile(share: float, counts: list[int], most: float) -> float | None:
    wanted = share * sum(counts)
    if not wanted:
        return None
    ends = list(accumulate(counts))
    bucket = bisect_left(ends, wanted)
    low = BOUNDS[bucket - 1] if bucket else 0.0
    high = min(BOUNDS[bucket], most) if bucket < len(BOUNDS) else most
    return low + (high - low) * (wanted - ends[bucket] + counts[bucket]) / counts[bucket]
