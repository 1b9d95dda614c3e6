"""Metrics page: the metrics of a server in the text format of Prometheus."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.metrics_core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector

from ...requests.metrics import BOUNDS, HistogramSnapshot
from ..http.exchange import HttpResponse
from ..observation.metric_families import COUNTERS, GAUGES, HISTOGRAMS, Family
from ..observation.server_observation import ServerObservation


def metrics_page(seen: ServerObservation) -> HttpResponse:
    """The page of one look, with the memory and processor time of this process."""
    registry = CollectorRegistry()
    registry.register(ServerCollector(seen))
    ProcessCollector(registry=registry)
    return HttpResponse(
        200, (generate_latest(registry),), ((b"content-type", CONTENT_TYPE_LATEST.encode()),)
    )


class ServerCollector(Collector):
    """Families of Prometheus for one look at a server."""

    def __init__(self, seen: ServerObservation) -> None:
        self._seen = seen

    def collect(self) -> Iterable[Metric]:
        """See Collector."""
        yield from self._numbers(CounterMetricFamily, COUNTERS)
        yield from self._numbers(GaugeMetricFamily, GAUGES)
        for one in HISTOGRAMS:
            family = HistogramMetricFamily(f"rankmesh_{one.name}", one.text, labels=one.labels)
            for labels, snapshot in one.samples(self._seen):
                family.add_metric(labels, _buckets(snapshot), snapshot["sum"])
            yield family

    def _numbers(
        self,
        kind: type[CounterMetricFamily | GaugeMetricFamily],
        families: Iterable[Family],
    ) -> Iterator[Metric]:
        for one in families:
            family = kind(f"rankmesh_{one.name}", one.text, labels=one.labels)
            for labels, value in one.samples(self._seen):
                family.add_metric(labels, value)
            yield family


def _buckets(snapshot: HistogramSnapshot) -> list[tuple[str, float]]:
    """All buckets, each with the count of those before it, as Prometheus has them."""
    counts = {bound: count for bound, count in snapshot["buckets"]}
    found: list[tuple[str, float]] = []
    below = 0.0
    for bound in (*BOUNDS, None):
        below += counts.get(bound) or 0.0
        found.append(("+Inf" if bound is None else repr(bound), below))
    return found
