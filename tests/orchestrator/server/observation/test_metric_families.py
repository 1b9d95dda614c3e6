"""The table of metrics, from one look at a server to the page."""

from __future__ import annotations

import os

import pytest
from prometheus_client.parser import text_string_to_metric_families

from rankmesh.comm.request_memory.owned_arena import ArenaUse
from rankmesh.orchestrator.replica.rank_status import RankStatus
from rankmesh.orchestrator.requests.metrics import ModelMetrics, RequestCounters
from rankmesh.orchestrator.server.observation.activity import ServerActivity
from rankmesh.orchestrator.server.observation.server_observation import (
    ModelObservation,
    ServerObservation,
)
from rankmesh.orchestrator.server.rest.metrics_page import metrics_page

pytestmark = pytest.mark.pure
MODEL = {"model": "m", "version": "2"}


def rank(number: int, pid: int | None) -> RankStatus:
    state = "restarting" if pid is None else "ready"
    return RankStatus("m", 1, number, pid, "host", 0, state, "", 0, "", 0, 2, 10.0, 2.5)


def samples(seen: ServerObservation) -> dict[str, list[tuple[dict[str, str], float]]]:
    """Labels and values by the names of the page."""
    page = b"".join(bytes(part) for part in metrics_page(seen).parts).decode()
    found: dict[str, list[tuple[dict[str, str], float]]] = {}
    for family in text_string_to_metric_families(page):
        for one in family.samples:
            found.setdefault(one.name, []).append((one.labels, one.value))
    return found


def metrics() -> ModelMetrics:
    counters = RequestCounters()
    counters.count("accepted", 3)
    counters.failed(ValueError())
    counters.queue.observe(0.5)
    return {**counters.snapshot(), "queue_depth": 7, "running": 1, "weights_version": 0}


def test_the_page_has_what_one_look_saw() -> None:
    found = samples(
        ServerObservation(
            [ModelObservation("m", "2", True, metrics())],
            [rank(0, os.getpid()), rank(1, None)],
            {"tensors": ArenaUse(1, 20, 300)},
            ServerActivity(4, {200: 5, 404: 1}, 2, {"OK": 6}, {"http": 9, "grpc": 8}),
        )
    )
    assert found["rankmesh_connections_limit"] == [
        ({"protocol": "http"}, 9.0),
        ({"protocol": "grpc"}, 8.0),
    ]
    assert found["rankmesh_accepted_total"] == [(MODEL, 3.0)]
    assert found["rankmesh_failed_total"] == [({**MODEL, "error": "ValueError"}, 1.0)]
    assert found["rankmesh_queue_depth"] == [(MODEL, 7.0)]
    assert found["rankmesh_model_ready"] == [(MODEL, 1.0)]
    assert found["rankmesh_queue_seconds_sum"] == [(MODEL, 0.5)]
    assert {one["state"] for one, _ in found["rankmesh_ranks"]} == {"ready", "restarting"}
    first = {**MODEL, "replica": "1", "rank": "0"}
    assert found["rankmesh_rank_run_seconds_total"] == [(first, 10.0)]
    assert found["rankmesh_rank_collective_seconds_total"] == [(first, 2.5)]
    memory = {one["kind"]: value for one, value in found["rankmesh_rank_memory_bytes"]}
    assert memory.keys() == {"private", "file", "shared"} and memory["private"] > 1 << 20
    assert found["rankmesh_shared_memory_used_bytes"] == [({"holds": "tensors"}, 1.0)]
    assert found["rankmesh_shared_memory_limit_bytes"] == [({"holds": "tensors"}, 300.0)]
    assert dict((one["status"], n) for one, n in found["rankmesh_http_responses_total"]) == {
        "200": 5.0,
        "404": 1.0,
    }
    assert found["rankmesh_grpc_answers_total"] == [({"status": "OK"}, 6.0)]
    assert (found["rankmesh_http_connections"], found["rankmesh_grpc_streams"]) == (
        [({}, 4.0)],
        [({}, 2.0)],
    )
    assert found["process_resident_memory_bytes"][0][1] > 1 << 20


def test_a_server_without_models_has_a_page() -> None:
    found = samples(ServerObservation([], [], {}, ServerActivity()))
    assert found["rankmesh_http_connections"] == [({}, 0.0)]
    assert "rankmesh_accepted_total" not in found
