"""Metric families: the table of a server's metrics, each with what it takes from a look at it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple, TypeAlias, cast

from ...replica.rank_status import RankStatus
from ...requests.metrics import HistogramSnapshot
from .server_observation import ModelObservation, ServerObservation

Labels: TypeAlias = tuple[str, ...]
Numbers: TypeAlias = Iterable[tuple[Labels, float]]
Histograms: TypeAlias = Iterable[tuple[Labels, HistogramSnapshot]]


class Family(NamedTuple):
    """One metric of numbers: its samples are labels with a value."""

    name: str
    text: str
    labels: Labels
    samples: Callable[[ServerObservation], Numbers]


class HistogramFamily(NamedTuple):
    """One metric of durations, likewise."""

    name: str
    text: str
    labels: Labels
    samples: Callable[[ServerObservation], Histograms]


def _model(one: ModelObservation) -> Labels:
    return one.name, one.version


def _rank(one: RankStatus) -> Labels:
    return one.model, str(one.version), str(one.replica), str(one.rank)


def _each_model(name: str, text: str) -> Family:
    """A number of each model's metrics, which has the same name there."""

    def samples(seen: ServerObservation) -> Numbers:
        for one in seen.models:
            yield _model(one), cast(float, one.metrics.get(name))

    return Family(name, text, MODEL, samples)


def _each_error(name: str, text: str) -> Family:
    """Counts of each model by the class of the error."""

    def samples(seen: ServerObservation) -> Numbers:
        for one in seen.models:
            for error, count in cast(Mapping[str, int], one.metrics.get(name)).items():
                yield (*_model(one), error), count

    return Family(name, text, (*MODEL, "error"), samples)


def _each_rank(name: str, text: str, seconds: Callable[[RankStatus], float]) -> Family:
    """A number of each rank that has a process."""
    return Family(
        name,
        text,
        RANK,
        lambda seen: [(_rank(one), seconds(one)) for one in seen.ranks if one.pid is not None],
    )


def _each_memory(name: str, text: str, column: int) -> Family:
    """One number of each arena, labelled by its contents."""
    return Family(
        name,
        text,
        ("holds",),
        lambda seen: [((holds,), use[column]) for holds, use in seen.shared_memory.items()],
    )


def _each_time(name: str, text: str) -> HistogramFamily:
    """Durations of each model's metrics."""

    def samples(seen: ServerObservation) -> Histograms:
        for one in seen.models:
            found = cast(Mapping[str, HistogramSnapshot], one.metrics["seconds"])
            yield _model(one), found[name]

    return HistogramFamily(f"{name}_seconds", text, MODEL, samples)


def _states(seen: ServerObservation) -> Numbers:
    return Counter((one.model, str(one.version), one.state) for one in seen.ranks).items()


def _rank_memory(seen: ServerObservation) -> Numbers:
    for rank, memory in seen.memory():
        for kind, size in memory._asdict().items():
            yield (*_rank(rank), kind), size


MODEL = ("model", "version")
RANK = (*MODEL, "replica", "rank")
COUNTERS = (
    _each_model("accepted", "Requests that were accepted."),
    _each_model("answered", "Requests that were answered."),
    _each_model("cancelled", "Requests that their clients cancelled."),
    _each_model("replayed", "Requests that ran again, as ranks failed."),
    _each_model("restarts", "Restarts of replicas."),
    _each_model("batches", "Batches of several requests."),
    _each_error("failed", "Accepted requests that ended with an error, by its class."),
    _each_error("refused", "Requests that were not accepted, by the class of the error."),
    _each_rank(
        "rank_run_seconds", "Seconds in which a rank ran requests.", lambda one: one.run_seconds
    ),
    _each_rank(
        "rank_collective_seconds",
        "Seconds of these that the rank was in collectives.",
        lambda one: one.collective_seconds,
    ),
    Family(
        "http_responses",
        "Responses of HTTP, by status.",
        ("status",),
        lambda seen: [((str(key),), count) for key, count in seen.activity.responses.items()],
    ),
    Family(
        "grpc_answers",
        "Inference requests of gRPC that were answered, by status.",
        ("status",),
        lambda seen: [((key,), count) for key, count in seen.activity.answers.items()],
    ),
    Family(
        "server_restarts",
        "Server processes that took the place of one that had ended.",
        (),
        lambda seen: [((), seen.activity.restarts)],
    ),
)
GAUGES = (
    _each_model("queue_depth", "Requests that wait for a replica."),
    _each_model("running", "Batches that replicas have."),
    _each_model("weights_version", "Updates of weights in effect."),
    Family(
        "model_ready",
        "Whether a request would be answered now.",
        MODEL,
        lambda seen: [(_model(one), float(one.ready)) for one in seen.models],
    ),
    Family("ranks", "Ranks by state.", (*MODEL, "state"), _states),
    Family(
        "rank_memory_bytes", "Memory of a rank's process, by kind.", (*RANK, "kind"), _rank_memory
    ),
    _each_memory("shared_memory_used_bytes", "Shared memory that is in use.", 0),
    _each_memory("shared_memory_bytes", "Shared memory, in use or free.", 1),
    _each_memory("shared_memory_limit_bytes", "The most that shared memory may become.", 2),
    Family(
        "server_processes",
        "Processes that answer clients.",
        (),
        lambda seen: [((), seen.activity.processes)],
    ),
    Family(
        "http_connections",
        "Open connections of HTTP.",
        (),
        lambda seen: [((), seen.activity.connections)],
    ),
    Family(
        "connections_limit",
        "Connections that may be open at a time, by protocol.",
        ("protocol",),
        lambda seen: [((protocol,), most) for protocol, most in seen.activity.limits.items()],
    ),
    Family(
        "grpc_streams",
        "Open streams of inference requests.",
        (),
        lambda seen: [((), seen.activity.streams)],
    ),
)
HISTOGRAMS = (
    _each_time("queue", "Seconds of requests in the queue."),
    _each_time("run", "Seconds of batches in the ranks."),
    _each_time("total", "Seconds of requests from their arrival to their answer."),
)
