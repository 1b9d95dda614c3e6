"""Request tracer: makes a span of OpenTelemetry for each request, and spans of its runs in it.

Names and attributes are those of OpenTelemetry's semantic conventions for HTTP and RPC servers,
https://opentelemetry.io/docs/specs/semconv/, and `rankmesh.` ones.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from functools import lru_cache
from types import MappingProxyType

from opentelemetry import context, propagate, trace
from opentelemetry.context import Context
from opentelemetry.trace import Span, SpanKind, Status, StatusCode

from .http_route import route_of
from .record import RequestRecord, RequestTimes

GRPC = "gRPC"
"""The method of requests of gRPC."""

_KEPT = 256
"""Names and attributes of spans that are kept: those of most requests came before."""

_NO_PARENT = Context()
_FAULTS = frozenset(
    {"DEADLINE_EXCEEDED", "UNIMPLEMENTED", "INTERNAL", "UNAVAILABLE", "UNKNOWN", "DATA_LOSS"}
)
"""The statuses of gRPC that are errors of the server."""


class RequestTracer:
    """Makes the spans of one server; the program configures where they go."""

    def __init__(self, tracer: trace.Tracer, scheme: str) -> None:
        """`scheme` of the server's URLs."""
        self._tracer = tracer
        self._scheme = scheme
        self._fields = propagate.get_global_textmap().fields

    def begin(self, record: RequestRecord, headers: Mapping[str, str]) -> RequestSpans:
        """The spans of a request, which goes on the trace that its headers name."""
        parent = _NO_PARENT if self._fields.isdisjoint(headers) else propagate.extract(headers)
        if record.method == GRPC:
            name, attributes = _of_grpc(record.path, record.client)
        else:
            named = headers.get("user-agent"), headers.get("host", "")
            client = record.client
            name, attributes = _of_http(record.method, record.path, client, *named, self._scheme)
        kind, began = SpanKind.SERVER, _epoch(record.began)
        span = self._tracer.start_span(name, parent, kind, attributes, start_time=began)
        return RequestSpans(self._tracer, span, parent)


class RequestSpans:
    """The span of one request, and those of its runs."""

    def __init__(self, tracer: trace.Tracer, span: Span, parent: Context) -> None:
        self._tracer = tracer
        self._span = span
        self._parent = parent

    @property
    def id(self) -> str:
        """See RequestTrace."""
        return trace.format_trace_id(self._span.get_span_context().trace_id)

    def enter(self) -> None:
        """Have all that this task does from here on be part of the request."""
        context.attach(trace.set_span_in_context(self._span, self._parent))

    def ran(self, request: RequestTimes, ended: float) -> None:
        """A request to a model has ended, at a second of `time.monotonic`."""
        if self._span.is_recording():
            within = trace.set_span_in_context(self._span, self._parent)
            self._note(within, request, ended)

    def _note(self, within: Context, request: RequestTimes, ended: float) -> None:
        """Make the spans of a request to a model, or of a step."""
        begun = request.begun
        self._child(within, "queue", request.submitted, ended if begun is None else begun, {})
        if begun is not None:
            attributes = {
                "rankmesh.replica": request.replica,
                "rankmesh.batch.size": request.together,
                "rankmesh.attempts": request.attempts,
            }
            self._child(within, "run", begun, ended, attributes)
        for step in request.steps:
            span = self._tracer.start_span(
                f"step {step.model}",
                within,
                attributes={"rankmesh.model.name": step.model},
                start_time=_epoch(step.submitted),
            )
            self._note(trace.set_span_in_context(span, within), step, step.ended)
            span.end(_epoch(step.ended))

    def end(self, record: RequestRecord) -> None:
        """The request has ended."""
        span, status = self._span, record.status
        if not span.is_recording():
            return
        span.set_attribute("rankmesh.request.id", record.id)
        if record.model:
            span.set_attribute("rankmesh.model.name", record.model)
            span.set_attribute("rankmesh.model.version", record.version)
        if record.method == GRPC:
            span.set_attribute("rpc.response.status_code", status)
            failed = status in _FAULTS
        else:
            span.set_attribute("http.response.status_code", int(status))
            failed = status >= "500"
        if failed:
            span.set_attribute("error.type", status)
            span.set_status(Status(StatusCode.ERROR))
        span.end(_epoch(record.ended))

    def _child(
        self, within: Context, name: str, begun: float, ended: float, attributes: dict[str, int]
    ) -> None:
        child = self._tracer.start_span(
            name, within, attributes=attributes, start_time=_epoch(begun)
        )
        child.end(_epoch(ended))


@lru_cache(maxsize=_KEPT)
def _of_http(
    method: str, path: str, client: str, agent: str | None, host: str, scheme: str
) -> tuple[str, Mapping[str, str | int]]:
    """The name of a span and its attributes."""
    route = route_of(path)
    found: dict[str, str | int] = {
        "http.request.method": method or "_OTHER",
        "url.path": path,
        "url.scheme": scheme,
        "client.address": client,
    }
    if route:
        found["http.route"] = route
    if agent is not None:
        found["user_agent.original"] = agent
    name, _, port = host.rpartition(":")
    if name and port.isdigit():
        found.update({"server.address": name, "server.port": int(port)})
    return f"{method or 'HTTP'} {route}".rstrip(), MappingProxyType(found)


@lru_cache(maxsize=_KEPT)
def _of_grpc(path: str, client: str) -> tuple[str, Mapping[str, str | int]]:
    method = path.lstrip("/")
    found = {"rpc.system.name": "grpc", "rpc.method": method, "client.address": client}
    return method, MappingProxyType(found)


def _epoch(moment: float) -> int:
    """A second of `time.monotonic` in nanoseconds since 1970."""
    return time.time_ns() - int(1e9 * (time.monotonic() - moment))
