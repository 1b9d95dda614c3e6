"""Overview: describes the models, replicas and ranks of a server in one document, for its page."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby

import psutil
from msgspec import Struct

from ....comm.host.process_identity import is_stopped
from ...replica.rank_status import RankStatus, ReplicaOutage
from ...requests.metrics import HistogramSnapshot
from ..observation.server_observation import ModelObservation, ServerObservation


class RankOverview(Struct):
    """One rank. `pid` is None while it is being replaced, `paused` tells that a signal has stopped
    its process. Seconds are those of this process: with requests, of these in collectives, and of
    processor time.
    """

    rank: int
    pid: int | None
    host: str
    device: int
    stage: str
    paused: bool
    run_seconds: float
    collective_seconds: float
    processor_seconds: float


class ReplicaOverview(Struct):
    """One replica: `state` is starting, ready, restarting, or stopped for good."""

    replica: int
    state: str
    restarts: int
    last_error: str
    ranks: list[RankOverview]


class Distribution(Struct):
    """Durations in seconds since the start of the model. A bucket is [upper end, count]; empty ones
    are left out, and the end of the last one, beyond all bounds, is null.
    """

    count: int
    sum: float
    buckets: list[list[float | None]]


class ModelOverview(Struct):
    """One version of a model, with its counts since its start; `failed` and `refused` are by the
    class of the error, `seconds` of requests in the queue, of batches in the ranks, and in all.
    """

    name: str
    version: str
    ready: bool
    batching: bool
    accepted: int
    answered: int
    cancelled: int
    replayed: int
    failed: dict[str, int]
    refused: dict[str, int]
    queue_depth: int
    running: int
    weights_version: int
    queue_seconds: Distribution
    run_seconds: Distribution
    total_seconds: Distribution
    replicas: list[ReplicaOverview]


class Overview(Struct):
    """The document: `time` and `started` are in seconds since 1970. `processors` are those that the
    server may use, `idle_seconds` how long processors of the host have been idle, in all.

    `state` is that of the orchestrator's status, or starting, or draining. `outages` begin with the
    earliest.
    """

    version: str
    time: float
    started: float
    state: str
    ready: bool
    processors: int
    idle_seconds: float
    connections: int
    models: list[ModelOverview]
    outages: list[ReplicaOutage]


def model_overviews(observation: ServerObservation) -> list[ModelOverview]:
    """All versions of all models."""
    return [_model(one, observation.ranks) for one in observation.models]


def _model(model: ModelObservation, ranks: Sequence[RankStatus]) -> ModelOverview:
    metrics = model.metrics
    seconds = metrics["seconds"]
    own = (one for one in ranks if (one.model, str(one.version)) == (model.name, model.version))
    return ModelOverview(
        model.name,
        model.version,
        model.ready,
        model.batching,
        metrics["accepted"],
        metrics["answered"],
        metrics["cancelled"],
        metrics["replayed"],
        metrics["failed"],
        metrics["refused"],
        metrics["queue_depth"],
        metrics["running"],
        metrics["weights_version"],
        _distribution(seconds["queue"]),
        _distribution(seconds["run"]),
        _distribution(seconds["total"]),
        _replicas(own),
    )


def _replicas(ranks: Iterable[RankStatus]) -> list[ReplicaOverview]:
    found = []
    for index, group in groupby(ranks, lambda one: one.replica):
        members = list(group)
        first = members[0]
        overviews = [_rank(one) for one in members]
        found.append(
            ReplicaOverview(index, first.state, first.restarts, first.last_error, overviews)
        )
    return found


def _rank(one: RankStatus) -> RankOverview:
    return RankOverview(
        one.rank,
        one.pid,
        one.host,
        one.device,
        one.stage,
        one.pid is not None and is_stopped(one.pid),
        one.run_seconds,
        one.collective_seconds,
        _processor_seconds(one.pid),
    )


def _distribution(found: HistogramSnapshot) -> Distribution:
    return Distribution(found["count"], found["sum"], found["buckets"])


def _processor_seconds(pid: int | None) -> float:
    """Of one process; 0 where it has ended."""
    if pid is None:
        return 0.0
    try:
        times = psutil.Process(pid).cpu_times()
    except psutil.Error:
        return 0.0
    return float(times.user + times.system)
