"""Observed calls: handlers of gRPC whose calls are observed."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import aclosing, contextmanager
from typing import Any, cast

from ..observation.record import RequestRecord
from ..observation.request_observer import RequestObserver
from .calls import CallContext, CallHandler, client_of
from .transport.service_handlers import METADATA
from .wrapped_call import WrappedCall


def observed(
    observer: RequestObserver | None, service: str, handlers: dict[str, CallHandler]
) -> dict[str, CallHandler]:
    """The same handlers with an observer, by the names of their methods."""
    if observer is None:
        return handlers
    return {
        name: ObservedCall(observer, f"/{service}/{name}", one).handler()
        for name, one in handlers.items()
    }


class ObservedCall(WrappedCall):
    """One call; of a stream the bytes of all its messages count."""

    def __init__(self, observer: RequestObserver, path: str, handler: CallHandler) -> None:
        super().__init__(handler)
        self._observer = observer
        self._path = path

    async def _unary(self, body: bytes, context: CallContext) -> bytes:
        with self._observed(context, len(body)) as record:
            answer = cast(bytes, await self._inner.unary_unary(body, context))
            record.bytes_out = len(answer)
            return answer

    async def _stream(self, body: bytes, context: CallContext) -> AsyncIterator[bytes]:
        with self._observed(context, len(body)) as record:
            async with aclosing(self._inner.unary_stream(body, context)) as answers:
                async for each in answers:
                    record.bytes_out += len(each)
                    yield each

    async def _streams(
        self, requests: AsyncIterator[bytes], context: CallContext
    ) -> AsyncIterator[bytes]:
        with self._observed(context, 0) as record:
            counted = _counted(requests, record)
            async with aclosing(self._inner.stream_stream(counted, context)) as answers:
                async for each in answers:
                    record.bytes_out += len(each)
                    yield each

    @contextmanager
    def _observed(self, context: CallContext, bytes_in: int) -> Iterator[RequestRecord]:
        """The record of a call, which ends with it, however that is."""
        given = {key: str(value) for key, value in METADATA.get()}
        record = self._observer.begin(client_of(context), "gRPC", self._path, given)
        record.status, record.bytes_in = "CANCELLED", bytes_in
        try:
            yield record
            record.status = "OK"
        finally:
            code: Any = context.code()
            if record.status != "OK" and code not in (None, 0):
                record.status = getattr(code, "name", str(code))
            self._observer.end(record)


async def _counted(requests: AsyncIterator[bytes], record: RequestRecord) -> AsyncIterator[bytes]:
    """The messages of a client, whose bytes count."""
    async for each in requests:
        record.bytes_in = (record.bytes_in or 0) + len(each)
        yield each
