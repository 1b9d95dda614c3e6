"""Logged application: writes a line for each request of HTTP that an application answers."""

from __future__ import annotations

from dataclasses import replace
from uuid import uuid4

from ..http.exchange import Application, HttpRequest, HttpResponse
from .access_log import AccessLog
from .record import CURRENT, RequestRecord

_REQUEST_ID = b"x-request-id"


class LoggedApplication:
    """An application whose requests are logged; its responses tell the request's id."""

    def __init__(self, inner: Application, log: AccessLog) -> None:
        self._inner = inner
        self._log = log

    async def answer(self, request: HttpRequest) -> HttpResponse:
        """See Application."""
        given = request.headers.get(_REQUEST_ID, b"").decode("latin-1")
        path = "/" + "/".join(request.path)
        record = RequestRecord(request.client, request.method, path, given or uuid4().hex)
        record.bytes_in = request.body.length
        CURRENT.set(record)
        try:
            response = await self._inner.answer(request)
            record.status, record.bytes_out = str(response.status), response.length
        finally:
            self._log.write(record)
        header = (_REQUEST_ID, record.id.encode("latin-1", "replace"))
        if not record.id.isprintable() or len(record.id) > 200:
            return response
        return replace(response, headers=(*response.headers, header))
