"""Statistics of a server: the pages and messages of the protocol as an observation."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct, field

from .observation import Observation, TimeSum


class DurationMessage(Struct):
    """How many requests took how many nanoseconds in all."""

    count: int = 0
    ns: int = 0


class InferStatistics(Struct):
    """Where the time of requests went."""

    queue: DurationMessage = field(default_factory=DurationMessage)
    compute_infer: DurationMessage = field(default_factory=DurationMessage)


class ModelStatisticsMessage(Struct):
    """Statistics of one version of a model."""

    inference_stats: InferStatistics = field(default_factory=InferStatistics)


class StatisticsMessage(Struct):
    """Statistics of a model: those of its versions."""

    model_stats: list[ModelStatisticsMessage] = field(default_factory=list)


def observed(versions: Iterable[ModelStatisticsMessage]) -> Observation:
    """The sums of all versions."""
    found = [one.inference_stats for one in versions]
    return Observation(_sum(one.queue for one in found), _sum(one.compute_infer for one in found))


def _sum(durations: Iterable[DurationMessage]) -> TimeSum:
    found = list(durations)
    return TimeSum(sum(one.count for one in found), sum(one.ns for one in found) / 1e9)
