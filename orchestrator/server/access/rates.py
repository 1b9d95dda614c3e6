"""Rates of requests: bound how many each caller sends in a second, and how many at once."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

_MOST_CALLERS = 10_000


@dataclass(frozen=True, slots=True)
class RequestRate:
    """`burst` requests at once, and `rate` more in each second."""

    rate: float
    burst: float

    @classmethod
    def of(cls, rate: float | None, burst: float | None) -> RequestRate | None:
        """The rate of two settings; `burst` is that of a second, and at least 1, by default."""
        if rate is None:
            return None
        return cls(rate, max(rate, 1.0) if burst is None else max(burst, 1.0))


class Rates(Protocol):
    """Counts the requests of callers."""

    def take(self, caller: str, allowed: RequestRate) -> float:
        """Take one request; the seconds to wait where none is left, else 0."""


class CallerRates:
    """The requests that each caller has left. A caller that was forgotten has its whole burst."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._left: dict[str, tuple[float, float]] = {}  # requests, and when that was

    def take(self, caller: str, allowed: RequestRate) -> float:
        """Take one request; the seconds to wait where none is left, else 0."""
        now = self._clock()
        left, then = self._left.get(caller, (allowed.burst, now))
        if len(self._left) >= _MOST_CALLERS and caller not in self._left:
            del self._left[next(iter(self._left))]
        left, seconds = taken(left, then, now, allowed)
        self._left[caller] = left, now
        return seconds


def taken(left: float, then: float, now: float, allowed: RequestRate) -> tuple[float, float]:
    """One request of a caller, which had `left` at the moment `then`: what it has left now, and the
    seconds to wait where that was none, else 0.
    """
    left = min(allowed.burst, left + (now - then) * allowed.rate)
    if left < 1.0:
        return left, (1.0 - left) / allowed.rate
    return left - 1.0, 0.0
