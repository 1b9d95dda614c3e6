"""Observed application: has each request that an application answers observed."""

from __future__ import annotations

from dataclasses import replace

from ..http.exchange import Application, HttpRequest, HttpResponse
from .request_observer import RequestObserver, identify


class ObservedApplication:
    """An application whose requests are observed; its responses tell the request's id."""

    def __init__(self, inner: Application, observer: RequestObserver) -> None:
        self._inner = inner
        self._observer = observer

    async def answer(self, request: HttpRequest) -> HttpResponse:
        """See Application."""
        record = self._observer.begin_http(request)
        response: HttpResponse | None = None
        try:
            response = await self._inner.answer(request)
        finally:
            self._observer.end_http(record, response or request.refusal)
        response = replace(response)  # it may be that of others as well
        identify(response, record)
        return response
