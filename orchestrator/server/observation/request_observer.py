"""Request observer: begins the record of each request, and writes it to the log at its end."""

from __future__ import annotations

from collections.abc import Mapping
from uuid import uuid4

from ..http.exchange import HttpRequest, HttpResponse
from .access_log import AccessLog
from .record import CURRENT, RequestRecord
from .trace_context import TRACEPARENT, trace_id_of
from .tracing import Tracing

REQUEST_ID = "x-request-id"


class RequestObserver:
    """Observes all requests of a server, from their beginning to their end."""

    def __init__(self, log: AccessLog | None, tracing: Tracing | None) -> None:
        self._log = log
        self._tracing = tracing

    @classmethod
    def wanted(cls, log: AccessLog | None, tracing: Tracing | None) -> RequestObserver | None:
        """An observer where a log or traces are to know of requests."""
        return None if log is None and tracing is None else cls(log, tracing)

    def begin(
        self, client: str, method: str, path: str, headers: Mapping[str, str]
    ) -> RequestRecord:
        """The record of a request that begins, which is that of this task from here on.

        `headers` of HTTP, or the metadata of gRPC, are by name in small letters.
        """
        record = self._record(client, method, path, headers)
        CURRENT.set(record)
        if record.trace is not None:
            record.trace.enter()
        return record

    def begin_http(self, request: HttpRequest) -> RequestRecord:
        """The record of a request of HTTP, likewise."""
        request.observed = True
        record = self.begin(request.client, request.method, path_of(request), headers_of(request))
        record.bytes_in = request.body.length
        return record

    def end(self, record: RequestRecord) -> None:
        """The request has ended."""
        if record.trace is not None:
            record.trace.end(record)
        if self._log is not None:
            self._log.write(record)

    def end_http(self, record: RequestRecord, response: HttpResponse | None) -> None:
        """A request of HTTP has ended; None: its client went away."""
        if response is not None:
            record.status, record.bytes_out = str(response.status), response.length
        self.end(record)

    def refused(self, client: str, request: HttpRequest | None, response: HttpResponse) -> None:
        """A connection has refused a request; None: its head could not be read."""
        if request is None:
            record = self._record(client, "", "", {})
        elif request.observed:  # its task ends it
            return
        else:
            record = self._record(client, request.method, path_of(request), headers_of(request))
            record.bytes_in = request.body.length
        self.end_http(record, response)

    def _record(
        self, client: str, method: str, path: str, headers: Mapping[str, str]
    ) -> RequestRecord:
        record = RequestRecord(client, method, path, headers.get(REQUEST_ID) or uuid4().hex)
        if self._tracing is None:
            record.trace_id = trace_id_of(headers.get(TRACEPARENT, ""))
        else:
            record.trace = self._tracing.begin(record, headers)
        return record


def path_of(request: HttpRequest) -> str:
    """The path of a request as one text."""
    return "/" + "/".join(request.path)


def headers_of(request: HttpRequest) -> dict[str, str]:
    """The headers of a request as text."""
    return {
        name.decode("latin-1"): value.decode("latin-1") for name, value in request.headers.items()
    }
