from __future__ import annotations

import json
import threading
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rankmesh import QueueFull, RankDied
from rankmesh.orchestrator.requests.metrics import BOUNDS, Histogram, RequestCounters

pytestmark = pytest.mark.pure


def of(*seconds: float) -> Histogram:
    histogram = Histogram()
    for one in seconds:
        histogram.observe(one)
    return histogram


def test_buckets_are_evenly_spaced_on_a_logarithmic_scale() -> None:
    assert (BOUNDS[0], BOUNDS[-1], len(BOUNDS)) == (1e-5, 100.0, 36)
    assert all(high / low == pytest.approx(10**0.2, rel=0.01) for low, high in pairwise(BOUNDS))


def test_a_histogram_of_nothing() -> None:
    assert of().snapshot() == {
        "count": 0,
        "sum": 0.0,
        "max": 0.0,
        "p50": None,
        "p90": None,
        "p99": None,
        "buckets": [],
    }


def test_each_duration_is_in_the_bucket_that_ends_at_or_after_it() -> None:
    found = of(0.0, 1e-5, 1.1e-5, 0.001, 99.0, 100.0, 1000.0).snapshot()
    assert found["buckets"] == [[1e-5, 2], [1.58e-5, 1], [0.001, 1], [100.0, 2], [None, 1]]
    assert (found["count"], found["max"]) == (7, 1000.0)
    assert found["sum"] == pytest.approx(1199.001021)


@given(st.lists(st.floats(1e-6, 500.0), min_size=1, max_size=60))
def test_quantiles_lie_in_the_bucket_of_the_true_ones(seconds: list[float]) -> None:
    found = of(*seconds).snapshot()
    for share in (0.5, 0.9, 0.99):
        true = float(np.quantile(seconds, share, method="inverted_cdf"))
        above = next((bound for bound in BOUNDS if bound >= true), max(seconds))
        below = max((bound for bound in BOUNDS if bound < true), default=0.0)
        assert below <= found[f"p{share * 100:g}"] <= min(above, max(seconds))
    assert found["p50"] <= found["p90"] <= found["p99"] <= found["max"] == max(seconds)


def test_counters_say_what_has_happened() -> None:
    counters = RequestCounters()
    counters.count("accepted", 3)
    counters.failed(RankDied("x"))
    counters.failed(RankDied("y"))
    counters.refused(QueueFull("z"))
    counters.run.observe(0.001)
    counters.total.observe(0.002)
    found = json.loads(json.dumps(counters.snapshot()))
    assert (found["accepted"], found["answered"], found["cancelled"]) == (3, 1, 0)
    assert (found["failed"], found["refused"]) == ({"RankDied": 2}, {"QueueFull": 1})
    assert (
        found["seconds"]["run"]["buckets"] == [[0.001, 1]]
        and found["seconds"]["total"]["count"] == 1
    )


def test_threads_lose_no_count() -> None:
    counters = RequestCounters()

    def work() -> None:
        for _ in range(2000):
            counters.count("accepted")
            counters.failed(RankDied(""))
            counters.total.observe(0.5)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    found = counters.snapshot()
    assert (found["accepted"], found["failed"], found["seconds"]["total"]["sum"]) == (
        8000,
        {"RankDied": 8000},
        4000.0,
    )
