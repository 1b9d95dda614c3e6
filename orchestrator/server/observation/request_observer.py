"""Request observer: begins the record of each request, and writes it to the log at its end."""

from __future__ import annotations

from collections.abc import Mapping
from uuid import uuid4

from ..http.exchange import HttpRequest, HttpResponse
from .access_log import AccessLog
from .record import CURRENT, RequestRecord
from .trace_context import TRACEPARENT, trace_id_of

REQUEST_ID = "x-request-id"


class RequestObserver:
    """Observes all requests of a server, from their beginning to their end."""

    def __init__(self, log: AccessLog) -> None:
        self._log = log

    @classmethod
    def wanted(cls, log: AccessLog | None) -> RequestObserver | None:
        """An observer where anything wants to know of requests."""
        return None if log is None else cls(log)

    def begin(
        self, client: str, method: str, path: str, headers: Mapping[str, str]
    ) -> RequestRecord:
        """The record of a request that begins, which is that of this task from here on.

        `headers` of HTTP, or the metadata of gRPC, are by name in small letters.
        """
        record = RequestRecord(client, method, path, headers.get(REQUEST_ID) or uuid4().hex)
        record.trace_id = trace_id_of(headers.get(TRACEPARENT, ""))
        CURRENT.set(record)
        return record

    def begin_http(self, request: HttpRequest) -> RequestRecord:
        """The record of a request of HTTP, likewise."""
        request.observed = True
        path = "/" + "/".join(request.path)
        headers = {name.decode("latin-1"): _text(one) for name, one in request.headers.items()}
        record = self.begin(request.client, request.method, path, headers)
        record.bytes_in = request.body.length
        return record

    def end(self, record: RequestRecord) -> None:
        """The request has ended."""
        self._log.write(record)

    def refused(self, client: str, request: HttpRequest | None, response: HttpResponse) -> None:
        """A connection has refused a request; None: its head could not be read."""
        if request is not None and request.observed:
            return
        before = CURRENT.set(None)  # the task of this request has not begun, or there is none
        if request is None:
            record = self.begin(client, "", "", {})
        else:
            record = self.begin_http(request)
        CURRENT.reset(before)
        self.end_http(record, response)

    def end_http(self, record: RequestRecord, response: HttpResponse | None) -> None:
        """A request of HTTP has ended; None: its client went away."""
        if response is not None:
            record.status, record.bytes_out = str(response.status), response.length
        self.end(record)


def _text(value: bytes) -> str:
    return value.decode("latin-1")
