"""Figures: computes throughput, latencies and shares of one level of load from its samples."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence

import msgspec
import numpy as np

from .levels import Level
from .samples import Samples
from .targets.observation import Observation, Shares, increase, shares

_BUSY = 0.85
"""The part of a core from which on the generator's own loop is the limit."""

_LATE = 0.005
"""Seconds by which an open loop may be late."""


class LevelFigures(msgspec.Struct, frozen=True):
    """Figures of one level; latencies in seconds, None where nothing was answered.

    `throughput` is of answers in a second, in the `seconds` of measuring. `failed` are requests by
    the class of their error, `wrong` answers that differ from the expected ones. `processors` is
    how many the ranks kept busy, `idle` how many of the host's were idle, `generator` the part of
    one that this program's loop used, and `lag` the 99th percentile of the seconds by which an open
    loop was late.
    """

    clients: int | None
    rate: float | None
    seconds: float
    answered: int
    throughput: float
    mean: float | None
    p50: float | None
    p90: float | None
    p99: float | None
    longest: float | None
    failed: dict[str, int]
    wrong: int
    shares: Shares
    processors: float | None
    idle: float | None
    generator: float
    lag: float | None

    @property
    def level(self) -> Level:
        """The level of load."""
        return Level(self.clients, self.rate)

    @property
    def busy(self) -> bool:
        """Whether the generator was the limit."""
        return self.generator > _BUSY

    @property
    def late(self) -> bool:
        """Whether the generator was late by more than a small part of the latencies."""
        return (self.lag or 0.0) > max(_LATE, (self.p50 or 0.0) / 10)


class MeasuredTime(msgspec.Struct, frozen=True):
    """The time of measuring: its end on the monotonic clock, its seconds, the generator's seconds
    of processor time, and what the target had counted at its begin and end.
    """

    end: float
    seconds: float
    generator: float
    before: Observation
    after: Observation


def figures(level: Level, samples: Samples, window: MeasuredTime) -> LevelFigures:
    """The figures of a level."""
    p50, p90, p99, longest = quantiles(samples.latencies, (0.5, 0.9, 0.99, 1.0))
    mean = float(np.mean(samples.latencies)) if samples.latencies else None
    lag = quantiles(samples.lags, (0.99,))[0] if samples.lags else None
    answered = bisect_right(samples.ends, window.end)
    return LevelFigures(
        level.clients,
        level.rate,
        window.seconds,
        len(samples.latencies),
        answered / window.seconds,
        mean,
        p50,
        p90,
        p99,
        longest,
        dict(samples.failed),
        samples.wrong,
        shares(window.before, window.after, mean),
        _rate(window.before.processors, window.after.processors, window.seconds),
        _rate(window.before.idle, window.after.idle, window.seconds),
        window.generator / window.seconds,
        lag,
    )


def quantiles(values: Sequence[float], parts: Sequence[float]) -> list[float | None]:
    """The values below which these parts of all are, interpolated; None without values."""
    if not len(values):
        return [None] * len(parts)
    return [float(one) for one in np.quantile(np.asarray(values), parts)]


def _rate(before: float | None, after: float | None, seconds: float) -> float | None:
    found = increase(before, after)
    return None if found is None else found / seconds
