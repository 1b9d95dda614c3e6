"""Observation: takes the counters of a server at one moment, and compares those of two moments."""

from __future__ import annotations

from dataclasses import dataclass

import msgspec


@dataclass(frozen=True, slots=True)
class Duration:
    """A sum of durations in seconds, and how many they are."""

    count: int = 0
    seconds: float = 0.0

    def mean_since(self, before: Duration) -> float | None:
        """The mean of those that came after `before`; None where there are none."""
        count = self.count - before.count
        return (self.seconds - before.seconds) / count if count > 0 else None


@dataclass(frozen=True, slots=True)
class Observation:
    """Sums since the start of a model: of requests in the queue, and of batches in the ranks.

    None is what the server does not tell: seconds of a rank in `collectives` per batch, seconds of
    `processors` that all ranks have used, and those in which processors of their host were `idle`.
    """

    queue: Duration = Duration()
    run: Duration = Duration()
    collectives: Duration | None = None
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
    collectives = None
    if before.collectives is not None and after.collectives is not None:
        collectives = after.collectives.mean_since(before.collectives)
    return Shares(
        _part(after.queue.mean_since(before.queue), latency),
        _part(after.run.mean_since(before.run), latency),
        _part(collectives, latency),
    )


def _part(seconds: float | None, latency: float) -> float | None:
    return None if seconds is None else min(1.0, seconds / latency)
