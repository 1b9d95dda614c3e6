"""Observation: takes the counters of a server at one moment, and compares those of two moments."""

from __future__ import annotations

from dataclasses import dataclass

import msgspec


@dataclass(frozen=True, slots=True)
class TimeSum:
    """A sum of durations in seconds, and how many they are."""

    count: int = 0
    seconds: float = 0.0

    def mean_since(self, before: TimeSum) -> float | None:
        """The mean of those that came after `before`; None where there are none."""
        count = self.count - before.count
        return (self.seconds - before.seconds) / count if count > 0 else None


@dataclass(frozen=True, slots=True)
class Observation:
    """Sums since the start of a model: of requests in the queue, and of batches in the ranks.

    None is what the server does not tell: seconds in which `ranks` have run, and `collectives` of
    these, by all ranks; seconds of `processors` that they have used, and those in which processors
    of their host were `idle`.
    """

    queue: TimeSum = TimeSum()
    run: TimeSum = TimeSum()
    ranks: float | None = None
    collectives: float | None = None
    processors: float | None = None
    idle: float | None = None


class Setup(msgspec.Struct, frozen=True):
    """How a model is served, as far as the server tells: `processors` are those of its host.

    A model is `batchable` if all its inputs and outputs leave their first dimension open.
    """

    replicas: int | None = None
    ranks: int | None = None
    processors: int | None = None
    batching: bool | None = None
    batchable: bool = False


class Shares(msgspec.Struct, frozen=True):
    """Parts of the mean latency that a client has seen, from 0 to 1; None: not known.

    Collectives are a part of the run, and what is left is the way between client and ranks.
    """

    queue: float | None = None
    run: float | None = None
    collectives: float | None = None


def shares(before: Observation, after: Observation, latency: float | None) -> Shares:
    """The shares of a mean latency in seconds, between two observations."""
    if not latency:
        return Shares()
    run = _part(after.run.mean_since(before.run), latency)
    inside = increase(before.collectives, after.collectives)
    ranks = increase(before.ranks, after.ranks)
    return Shares(
        _part(after.queue.mean_since(before.queue), latency),
        run,
        run * min(1.0, inside / ranks)
        if run is not None and inside is not None and ranks
        else None,
    )


def increase(before: float | None, after: float | None) -> float | None:
    """None where it is not known, as ranks were replaced."""
    if before is None or after is None or after < before:
        return None
    return after - before


def _part(seconds: float | None, whole: float | None) -> float | None:
    return None if seconds is None or not whole else min(1.0, seconds / whole)
