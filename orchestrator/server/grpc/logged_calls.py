"""Logged calls: handlers of gRPC that write a line for each call."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import aclosing, contextmanager
from typing import Any, cast
from uuid import uuid4

from ..observation.access_log import AccessLog
from ..observation.record import CURRENT, RequestRecord
from .calls import CallContext, CallHandler, client_of
from .wrapped_call import WrappedCall

_REQUEST_ID = "x-request-id"


def logged(
    log: AccessLog | None, service: str, handlers: dict[str, CallHandler]
) -> dict[str, CallHandler]:
    """The same handlers with a log, by the names of their methods."""
    if log is None:
        return handlers
    return {
        name: LoggedCall(log, f"/{service}/{name}", one).handler() for name, one in handlers.items()
    }


class LoggedCall(WrappedCall):
    """One call; of a stream the bytes of all its messages count."""

    def __init__(self, log: AccessLog, path: str, handler: CallHandler) -> None:
        super().__init__(handler)
        self._log = log
        self._path = path

    async def _unary(self, body: bytes, context: CallContext) -> bytes:
        with self._line(context, len(body)) as record:
            answer = cast(bytes, await self._inner.unary_unary(body, context))
            record.bytes_out = len(answer)
            return answer

    async def _stream(self, body: bytes, context: CallContext) -> AsyncIterator[bytes]:
        with self._line(context, len(body)) as record:
            async with aclosing(self._inner.unary_stream(body, context)) as answers:
                async for each in answers:
                    record.bytes_out += len(each)
                    yield each

    async def _streams(
        self, requests: AsyncIterator[bytes], context: CallContext
    ) -> AsyncIterator[bytes]:
        with self._line(context, 0) as record:
            counted = _counted(requests, record)
            async with aclosing(self._inner.stream_stream(counted, context)) as answers:
                async for each in answers:
                    record.bytes_out += len(each)
                    yield each

    @contextmanager
    def _line(self, context: CallContext, bytes_in: int) -> Iterator[RequestRecord]:
        """The record of a call; its line is written after the call, however that ends."""
        given = [value for key, value in context.invocation_metadata() or () if key == _REQUEST_ID]
        name = str(given[0]) if given else uuid4().hex
        record = RequestRecord(client_of(context), "gRPC", self._path, name, status="CANCELLED")
        record.bytes_in = bytes_in
        CURRENT.set(record)
        try:
            yield record
            record.status = "OK"
        finally:
            code: Any = context.code()
            if record.status != "OK" and code not in (None, 0):
                record.status = getattr(code, "name", str(code))
            self._log.write(record)


async def _counted(requests: AsyncIterator[bytes], record: RequestRecord) -> AsyncIterator[bytes]:
    """The messages of a client, whose bytes count."""
    async for each in requests:
        record.bytes_in = (record.bytes_in or 0) + len(each)
        yield each
