"""Advice: sentences on replicas and batching, with the figures behind them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from .figures import LevelFigures
from .targets.observation import Setup

_QUEUED = 0.25
"""The part of the latency in the queue from which on replicas are too few."""

_LEAST = 0.05
"""Cores that a replica is taken to need at least."""

_GAIN = 1.05
"""Times the throughput that a higher level has to give, else the level before is the limit."""


def advice_of(levels: Sequence[LevelFigures], setup: Setup) -> Iterator[str]:
    """Sentences on a served model; none where no request was answered."""
    for one in levels:
        if one.busy:
            yield (
                f"At {one.level} the load generator was the limit ({one.generator:.0%} of a core): "
                "the server may do more than this figure says."
            )
        elif one.late:
            yield (
                f"At {one.level} the load generator itself was late, by {_milliseconds(one.lag)} "
                "at the 99th percentile: this host has too few free cores, and the latencies hold "
                "that."
            )
    best = _saturated(levels)
    if best is not None and not best.busy:
        yield f"At {best.level}, {best.throughput:.1f} requests/s: {_verdict(best, setup)}"


def _saturated(levels: Sequence[LevelFigures]) -> LevelFigures | None:
    """The lowest level whose throughput no other one exceeds by much."""
    answered = [one for one in levels if one.answered]
    if not answered:
        return None
    most = max(one.throughput for one in answered)
    return next(one for one in answered if one.throughput * _GAIN >= most)


def _verdict(best: LevelFigures, setup: Setup) -> str:
    queue = best.shares.queue
    if queue is None:
        return "the server tells nothing of its queue, so there is no advice."
    waits = f"{queue:.0%} of the latency is in the queue"
    if queue < _QUEUED:
        return f"{waits}, so replicas are enough for this load."
    return f"{waits}; {_remedy(best, setup)}"


def _remedy(best: LevelFigures, setup: Setup) -> str:
    """The remedy for requests that wait for replicas."""
    batch = setup.batchable and setup.batching is False
    batching = "batching (max_batch, max_delay) may run waiting requests together"
    if best.processors is None or best.idle is None or not setup.replicas:
        return f"more replicas may help{f', and {batching}' if batch else ''}."
    used = f"ranks keep {best.processors:.1f} cores busy, and {best.idle:.1f} are idle"
    each = max(best.processors / setup.replicas, _LEAST)
    more = min(int(best.idle / each), setup.replicas)
    if more > 0:
        return f"{used}: try {setup.replicas + more} replicas in place of {setup.replicas}."
    if batch:
        return f"{used}: more replicas do not help here, but {batching}."
    return f"{used}: for more requests take a smaller model, or more hosts."


def _milliseconds(seconds: float | None) -> str:
    return f"{(seconds or 0.0) * 1e3:.0f} ms"
