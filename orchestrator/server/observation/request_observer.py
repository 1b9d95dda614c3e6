"""Request observer: begins the record of each request, and writes it to the log at its end."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Mapping
from typing import NamedTuple

from ..http.exchange import HttpRequest, HttpResponse
from ..http.request_head import RequestHead
from .access_log import AccessLog
from .later_trace import LaterTrace
from .record import CURRENT, RequestRecord
from .trace_context import TRACEPARENT, trace_id_of
from .tracing import Tracing

REQUEST_ID = "x-request-id"
_ID_HEADER = REQUEST_ID.encode()
_LONGEST_ID = 200
_KEPT = 256
Later = Callable[[Callable[[], None]], object]
"""Calls a function some milliseconds later."""


class _HeadFacts(NamedTuple):
    """The part of a record that all requests with one head have in common; empty: there is none."""

    path: str
    headers: Mapping[str, str]
    id: str
    trace_id: str


class RequestObserver:
    """Observes all requests of a server, from their beginning to their end.

    Those that have ended are logged and traced together, some milliseconds later: that takes a
    third of the time which it takes between other work, as all code and data are in the caches.
    """

    def __init__(self, log: AccessLog | None, tracing: Tracing | None, later: Later) -> None:
        self._log = log
        self._tracing = tracing
        self._later = later
        self._ended: list[RequestRecord] = []
        self._facts: dict[RequestHead, _HeadFacts] = {}

    @classmethod
    def wanted(
        cls, log: AccessLog | None, tracing: Tracing | None, later: Later
    ) -> RequestObserver | None:
        """An observer where a log or traces are to know of requests."""
        return None if log is None and tracing is None else cls(log, tracing, later)

    def begin(
        self, client: str, method: str, path: str, headers: Mapping[str, str]
    ) -> RequestRecord:
        """The record of a request that begins, which is that of this task from here on.

        `headers` of HTTP, or the metadata of gRPC, are by name in small letters.
        """
        record = self._record(client, method, path, headers)
        if self._tracing is not None:
            record.trace = self._tracing.begin(record, headers)
        CURRENT.set(record)
        if record.trace is not None:
            record.trace.enter()
        return record

    def begin_http(self, request: HttpRequest) -> RequestRecord:
        """The record of a request of HTTP, likewise."""
        request.observed = True
        record = self.begin(request.client, request.method, _path_of(request), _headers_of(request))
        record.bytes_in = request.body.length
        return record

    def record_of(self, head: RequestHead, client: str) -> RequestRecord:
        """The record of a request of HTTP that has no task of its own."""
        facts = self._facts.get(head) or self._note_facts(head)
        record = RequestRecord(client, head.method, facts.path, facts.id or _made_id(), head.length)
        if self._tracing is not None:
            record.trace = LaterTrace(self._tracing, facts.headers)
        elif facts.trace_id:
            record.trace_id = facts.trace_id
        return record

    def end(self, record: RequestRecord) -> None:
        """The request has ended."""
        record.ended = time.monotonic()
        self._ended.append(record)
        if len(self._ended) == 1:
            self._later(self.flush)

    def flush(self) -> None:
        """Log and trace the requests that have ended."""
        ended, self._ended = self._ended, []
        for record in ended if self._tracing is not None else ():
            if record.trace is not None:
                record.trace.end(record)
        if self._log is not None:
            self._log.write(ended)

    def end_http(self, record: RequestRecord, response: HttpResponse | None) -> None:
        """A request of HTTP has ended; None: its client went away."""
        if response is not None:
            record.status, record.bytes_out = str(response.status), response.length
        self.end(record)

    def refused(self, client: str, head: RequestHead | None, response: HttpResponse | None) -> None:
        """A connection has refused a request, whose head is None if it could not be read, or lost
        its client before the request began.
        """
        if head is not None:
            record = self.record_of(head, client)
        else:
            record = self._record(client, "", "", {})
            if self._tracing is not None:
                record.trace = LaterTrace(self._tracing, {})
        self.end_http(record, response)

    def _note_facts(self, head: RequestHead) -> _HeadFacts:
        headers = _headers_of(head)
        trace_id = trace_id_of(headers.get(TRACEPARENT, ""))
        found = _HeadFacts(_path_of(head), headers, headers.get(REQUEST_ID, ""), trace_id)
        if len(self._facts) >= _KEPT:
            self._facts.clear()
        self._facts[head] = found
        return found

    def _record(
        self, client: str, method: str, path: str, headers: Mapping[str, str]
    ) -> RequestRecord:
        record = RequestRecord(client, method, path, headers.get(REQUEST_ID) or _made_id())
        if TRACEPARENT in headers:
            record.trace_id = trace_id_of(headers[TRACEPARENT])
        return record


def identify(response: HttpResponse, record: RequestRecord) -> None:
    """Have a response that is of one request alone tell its id, by a header."""
    if not record.id.isprintable() or len(record.id) > _LONGEST_ID:
        return
    value = record.id.encode("latin-1", "replace")
    if response.lines:
        response.lines += b"%b: %b\r\n" % (_ID_HEADER, value)
    else:
        response.headers = (*response.headers, (_ID_HEADER, value))


def _made_id() -> str:
    """An id that no other request has; nothing depends on that it cannot be guessed."""
    return f"{random.getrandbits(128):032x}"  # nosec B311  # not a secret


def _path_of(request: HttpRequest | RequestHead) -> str:
    """The path of a request as one text."""
    return "/" + "/".join(request.path)


def _headers_of(request: HttpRequest | RequestHead) -> dict[str, str]:
    """The headers of a request as text."""
    return {
        name.decode("latin-1"): value.decode("latin-1") for name, value in request.headers.items()
    }
