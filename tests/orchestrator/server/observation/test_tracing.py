"""Spans of OpenTelemetry for requests of HTTP and gRPC, and their traces."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextvars import copy_context
from datetime import datetime
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF
from opentelemetry.trace import StatusCode
from processes import PATIENCE, wait_until
from served_grpc import connected, infer_message
from served_http import ServerProcess, serving, tensor
from served_models import echo

from rankmesh.orchestrator.requests.request import Request
from rankmesh.orchestrator.server.http.exchange import HttpResponse
from rankmesh.orchestrator.server.http.request_head import RequestHead
from rankmesh.orchestrator.server.observation.http_route import route_of
from rankmesh.orchestrator.server.observation.record import RequestRecord
from rankmesh.orchestrator.server.observation.request_observer import RequestObserver
from rankmesh.orchestrator.server.observation.request_tracer import RequestTracer
from rankmesh.orchestrator.server.observation.tracing import configured_tracer
from rankmesh.orchestrator.server.rest.open_api import open_api_page

X = np.arange(4, dtype=np.float32)
PROGRAM = Path(__file__).parents[3] / "support" / "traced_program.py"
TRACE = "0af7651916cd43dd8448eb211c80319c"
SPAN = "b7ad6b7169203331"
PARENT = f"00-{TRACE}-{SPAN}-01"
METHOD = "inference.GRPCInferenceService/ModelInfer"


SERVE = """\
models:
  echo: {model: echo.onnx}
  inner: {steps: [{model: echo, outputs: {y: x1}}]}
  chain: {steps: [inner, {model: echo, inputs: {x: x1}}]}
"""


def seconds_at(time: str) -> float:
    """Seconds since 1970 of the time of a span."""
    return datetime.fromisoformat(time.replace("Z", "+00:00")).timestamp()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("traced")


@pytest.fixture(scope="module")
def server(folder: Path) -> Iterator[ServerProcess]:
    program = (str(PROGRAM), f"{folder}/spans")
    options = ("--grpc-port", "0", "--access-log", "json", "--access-log-file", f"{folder}/log")
    echo(folder, X.size)
    (folder / "serve.yaml").write_text(SERVE)
    with serving(folder / "serve.yaml", *options, program=program) as made:
        yield made


def spans(
    folder: Path, name: str, parent: str | None = None, count: int = 1
) -> list[dict[str, Any]]:
    """The spans of a name, of one parent where given; waits until there are `count`."""
    found: list[dict[str, Any]] = []

    def look() -> bool:
        lines = (folder / "spans").read_text().splitlines()
        records = [json.loads(line) for line in lines if line.endswith("}")]
        found[:] = [one for one in records if one["name"] == name]
        if parent is not None:
            found[:] = [one for one in found if one["parent_id"] == parent]
        return len(found) >= count

    wait_until(look, f"a span {name}")
    return found


def test_a_request_of_http_is_a_span_with_its_time_in_queue_and_ranks(
    server: ServerProcess, folder: Path
) -> None:
    path = "/v2/models/echo/infer"
    document = {"id": "first", "inputs": [tensor("x", X)]}
    assert server.post(path, document, traceparent=PARENT).status == 200
    (span,) = spans(folder, "POST /v2/models/{model}/infer")
    assert (span["context"]["trace_id"], span["parent_id"]) == (f"0x{TRACE}", f"0x{SPAN}")
    assert span["kind"] == "SpanKind.SERVER" and span["status"]["status_code"] == "UNSET"
    expected = {
        "http.request.method": "POST",
        "http.response.status_code": 200,
        "http.route": "/v2/models/{model}/infer",
        "url.path": path,
        "url.scheme": "http",
        "client.address": "127.0.0.1",
        "server.port": server.port,
        "rankmesh.model.name": "echo",
        "rankmesh.model.version": "1",
        "rankmesh.request.id": "first",
    }
    assert expected.items() <= span["attributes"].items()
    (queue,) = spans(folder, "queue", span["context"]["span_id"])
    (run,) = spans(folder, "run", span["context"]["span_id"])
    between = seconds_at(run["start_time"]) - seconds_at(queue["end_time"])
    assert abs(between) <= 2e-6  # each time is rounded to microseconds by itself
    assert span["start_time"] <= queue["start_time"] <= run["end_time"] <= span["end_time"]
    assert run["attributes"] == {
        "rankmesh.replica": 0,
        "rankmesh.batch.size": 1,
        "rankmesh.attempts": 1,
    }
    lines = [json.loads(line) for line in (folder / "log").read_text().splitlines()]
    assert [one["trace_id"] for one in lines if one["id"] == "first"] == [TRACE]


def test_a_call_of_grpc_is_a_span_and_a_stream_has_the_runs_of_its_requests(
    server: ServerProcess, folder: Path
) -> None:
    message = infer_message("echo", {"x": X}, id="second")
    with connected(server.grpc_port) as client:
        client.send("ModelInfer", message, metadata=[("traceparent", PARENT)])
        assert len(list(client.stream([message] * 3))) == 3
        with pytest.raises(grpc.RpcError):
            client.send("ModelInfer", infer_message("nothing", {"x": X}))
    first, failed = spans(folder, METHOD, count=2)
    assert first["context"]["trace_id"] == f"0x{TRACE}"
    assert first["attributes"]["rpc.system.name"] == "grpc"
    assert first["attributes"]["rpc.response.status_code"] == "OK"
    assert len(spans(folder, "run", first["context"]["span_id"])) == 1
    assert failed["attributes"]["rpc.response.status_code"] == "NOT_FOUND"
    assert failed["status"]["status_code"] == "UNSET"  # it is the client's fault
    (stream,) = spans(folder, METHOD.replace("ModelInfer", "ModelStreamInfer"))
    assert len(spans(folder, "run", stream["context"]["span_id"])) == 3


def test_what_a_connection_refuses_is_a_span(server: ServerProcess, folder: Path) -> None:
    with socket.create_connection(("127.0.0.1", server.port), PATIENCE) as client:
        client.sendall(b"GARBLED\r\n\r\n")
        assert client.recv(1 << 16)
    (span,) = spans(folder, "HTTP")
    assert span["attributes"]["http.response.status_code"] == 400


def test_steps_of_a_chain_are_spans_of_its_request(server: ServerProcess, folder: Path) -> None:
    assert server.infer("chain", [tensor("x", X)]).status == 200
    (inner,) = spans(folder, "step inner")
    first, second = spans(folder, "step echo", count=2)
    assert first["parent_id"] == inner["context"]["span_id"]
    assert second["parent_id"] == inner["parent_id"]
    assert first["end_time"] <= inner["end_time"] <= second["end_time"]
    assert second["attributes"] == {"rankmesh.model.name": "echo"}
    (run,) = spans(folder, "run", second["context"]["span_id"])
    assert run["attributes"]["rankmesh.attempts"] == 1


@pytest.fixture
def exporter() -> InMemorySpanExporter:
    return InMemorySpanExporter()


def observer(exporter: InMemorySpanExporter, **options: Any) -> RequestObserver:
    provider = TracerProvider(**options)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    tracer = RequestTracer(provider.get_tracer("rankmesh"), "https")
    return RequestObserver(None, tracer, later=lambda flush: flush())


def begun(seen: RequestObserver, method: str, path: str, headers: dict[str, str]) -> RequestRecord:
    """The record of a request, begun in a context of its own, as in a task."""
    return copy_context().run(seen.begin, "::1", method, path, headers)


@pytest.mark.pure
def test_errors_of_the_server_are_errors_of_the_span(exporter: InMemorySpanExporter) -> None:
    seen = observer(exporter)
    for status in (404, 504):
        record = begun(seen, "GET", "/v2/models/a/unknown", {"host": "name:8000"})
        seen.end_http(record, HttpResponse(status))
    missing, late = exporter.get_finished_spans()
    assert missing.name == "GET" and missing.status.status_code is StatusCode.UNSET
    assert late.attributes is not None and late.attributes["error.type"] == "504"
    assert late.status.status_code is StatusCode.ERROR
    assert (late.attributes["server.address"], late.attributes["url.scheme"]) == ("name", "https")


@pytest.mark.pure
def test_a_request_that_no_rank_was_given_has_no_run(exporter: InMemorySpanExporter) -> None:
    seen = observer(exporter)
    record = begun(seen, "gRPC", f"/{METHOD}", {})
    record.ran(Request())
    record.status = "DEADLINE_EXCEEDED"
    seen.end(record)
    assert [one.name for one in exporter.get_finished_spans()] == ["queue", METHOD]
    assert record.queue_seconds is not None and record.run_seconds is None


@pytest.mark.pure
def test_a_request_without_a_task_has_its_spans_at_its_end(exporter: InMemorySpanExporter) -> None:
    seen = observer(exporter)
    path = ["v2", "models", "a", "infer"]
    head = RequestHead("POST", path, {b"traceparent": PARENT.encode()}, 4, True)
    record = seen.record_of(head, "::1")
    assert not exporter.get_finished_spans()
    request = Request()
    request.submitted = request.begun = record.began
    record.ran(request)
    seen.end_http(record, HttpResponse())
    queue, run, whole = exporter.get_finished_spans()
    assert (queue.name, run.name, whole.name) == ("queue", "run", "POST /v2/models/{model}/infer")
    assert {f"{one.context.trace_id:032x}" for one in (queue, run, whole)} == {TRACE}
    assert whole.end_time is not None and run.end_time is not None
    assert whole.end_time >= run.end_time - 1_000_000  # clocks that are read one after the other


@pytest.mark.pure
def test_traces_that_are_not_sampled_keep_their_id(exporter: InMemorySpanExporter) -> None:
    seen = observer(exporter, sampler=ALWAYS_OFF)
    record = begun(seen, "GET", "/v2", {"traceparent": PARENT})
    record.ran(Request())
    seen.end_http(record, HttpResponse())
    assert record.trace is not None and record.trace.id == TRACE
    assert not exporter.get_finished_spans()


@pytest.mark.pure
def test_routes_are_those_of_the_described_paths() -> None:
    document = json.loads(bytes(open_api_page("1").parts[0]))
    for path in document["paths"]:
        filled = path.format(model="a", version="7", region="b")
        assert route_of(filled) == path
    assert route_of("/v2/models/stats") == "/v2/models/stats"
    assert [route_of(one) for one in ("/v2/secret", "", "//", "/v2/models/a/b/c")] == [""] * 4


@pytest.mark.pure
def test_nothing_is_imported_where_no_provider_is_set() -> None:
    assert configured_tracer("1", "http") is None  # the API is imported, and has no provider


def test_the_server_imports_no_opentelemetry() -> None:
    check = (
        "import sys, rankmesh.orchestrator.server.frontend.frontend as loop;"
        "assert loop.configured_tracer('1', 'http') is None;"
        "assert not [name for name in sys.modules if name.startswith('opentelemetry')]"
    )
    subprocess.run([sys.executable, "-c", check], check=True, timeout=PATIENCE)
