"""Metrics page: the metrics of all models in the text format of Prometheus."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

from prometheus_client import CollectorRegistry
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.metrics_core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector

from ...requests.metrics import BOUNDS, HistogramSnapshot, ModelMetrics
from ...status import RankStatus
from ..http.exchange import HttpResponse

ModelKey = tuple[str, str]
"""A model and its version."""

_MODEL = ("model", "version")
_COUNTS = {
    "accepted": "Requests that were accepted.",
    "answered": "Requests that were answered.",
    "cancelled": "Requests that their clients cancelled.",
    "replayed": "Requests that ran again, as ranks failed.",
    "restarts": "Restarts of replicas.",
    "batches": "Batches of several requests.",
}
_BY_ERROR = {
    "failed": "Accepted requests that ended with an error, by its class.",
    "refused": "Requests that were not accepted, by the class of the error.",
}
_GAUGES = {
    "queue_depth": "Requests that wait for a replica.",
    "running": "Batches that replicas have.",
    "weights_version": "Updates of weights in effect.",
}
_TIMES = {
    "queue": "Seconds of requests in the queue.",
    "run": "Seconds of batches in the ranks.",
    "total": "Seconds of requests from their arrival to their answer.",
}


def metrics_page(
    metrics: Mapping[ModelKey, ModelMetrics],
    ready: Mapping[ModelKey, bool],
    ranks: Sequence[RankStatus],
) -> HttpResponse:
    """The page; all arguments are by model and version, or of all models."""
    registry = CollectorRegistry()
    registry.register(ModelCollector(metrics, ready, ranks))
    return HttpResponse(
        200, (generate_latest(registry),), ((b"content-type", CONTENT_TYPE_LATEST.encode()),)
    )


class ModelCollector(Collector):
    """Families of Prometheus for one look at all models."""

    def __init__(
        self,
        metrics: Mapping[ModelKey, ModelMetrics],
        ready: Mapping[ModelKey, bool],
        ranks: Sequence[RankStatus],
    ) -> None:
        self._metrics = metrics
        self._ready = ready
        self._ranks = ranks

    def collect(self) -> Iterable[Metric]:
        """See Collector."""
        yield from self._counters()
        yield from self._gauges()
        yield from self._histograms()

    def _counters(self) -> Iterator[Metric]:
        for key, text in _COUNTS.items():
            family = CounterMetricFamily(f"rankmesh_{key}", text, labels=_MODEL)
            for model, found in self._metrics.items():
                family.add_metric(model, _number(found, key))
            yield family
        for key, text in _BY_ERROR.items():
            family = CounterMetricFamily(f"rankmesh_{key}", text, labels=[*_MODEL, "error"])
            for model, found in self._metrics.items():
                errors = found["failed"] if key == "failed" else found["refused"]
                for error, count in errors.items():
                    family.add_metric([*model, error], count)
            yield family

    def _gauges(self) -> Iterator[Metric]:
        for key, text in _GAUGES.items():
            family = GaugeMetricFamily(f"rankmesh_{key}", text, labels=_MODEL)
            for model, found in self._metrics.items():
                family.add_metric(model, _number(found, key))
            yield family
        text = "Whether a request would be answered now."
        family = GaugeMetricFamily("rankmesh_model_ready", text, labels=_MODEL)
        for model, ready in self._ready.items():
            family.add_metric(model, ready)
        yield family
        family = GaugeMetricFamily("rankmesh_ranks", "Ranks by state.", labels=[*_MODEL, "state"])
        counts = Counter((one.model, str(one.version), one.state) for one in self._ranks)
        for labels, count in counts.items():
            family.add_metric(labels, count)
        yield family

    def _histograms(self) -> Iterator[Metric]:
        for key, text in _TIMES.items():
            family = HistogramMetricFamily(f"rankmesh_{key}_seconds", text, labels=_MODEL)
            for model, found in self._metrics.items():
                seconds = found["seconds"]
                times = {"queue": seconds["queue"], "run": seconds["run"]}
                snapshot = times.get(key, seconds["total"])
                family.add_metric(model, _buckets(snapshot), snapshot["sum"])
            yield family


def _number(metrics: ModelMetrics, key: str) -> float:
    value = metrics.get(key)
    assert isinstance(value, int | float)
    return value


def _buckets(snapshot: HistogramSnapshot) -> list[tuple[str, float]]:
    """All buckets, each with the count of those before it, as Prometheus has them."""
    counts = {bound: count for bound, count in snapshot["buckets"]}
    found: list[tuple[str, float]] = []
    below = 0.0
    for bound in (*BOUNDS, None):
        below += counts.get(bound) or 0.0
        found.append(("+Inf" if bound is None else repr(bound), below))
    return found
