"""Logged calls: handlers of gRPC that write a line for each call."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import Any, cast
from uuid import uuid4

import grpc

from ..observation.access_log import AccessLog
from ..observation.record import CURRENT, RequestRecord
from .calls import CallContext, CallHandler, client_of

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


class LoggedCall:
    """One call; of a stream the bytes of all its messages count."""

    def __init__(self, log: AccessLog, path: str, handler: CallHandler) -> None:
        self._log = log
        self._path = path
        self._inner: Any = handler

    def handler(self) -> CallHandler:
        """The handler that writes."""
        if self._inner.stream_stream is not None:
            return grpc.stream_stream_rpc_method_handler(self._streams)
        if self._inner.unary_stream is not None:
            return grpc.unary_stream_rpc_method_handler(self._stream)
        return grpc.unary_unary_rpc_method_handler(self._unary)

    async def _unary(self, body: bytes, context: CallContext) -> bytes:
        record = self._begun(context)
        record.bytes_in = len(body)
        try:
            answer = cast(bytes, await self._inner.unary_unary(body, context))
            record.bytes_out, record.status = len(answer), "OK"
            return answer
        finally:
            self._end(record, context)

    async def _stream(self, body: bytes, context: CallContext) -> AsyncIterator[bytes]:
        record = self._begun(context)
        record.bytes_in = len(body)
        try:
            async with aclosing(self._inner.unary_stream(body, context)) as answers:
                async for each in answers:
                    record.bytes_out += len(each)
                    yield each
            record.status = "OK"
        finally:
            self._end(record, context)

    async def _streams(
        self, requests: AsyncIterator[bytes], context: CallContext
    ) -> AsyncIterator[bytes]:
        record = self._begun(context)
        record.bytes_in = 0

        async def counted() -> AsyncIterator[bytes]:
            async for each in requests:
                record.bytes_in = (record.bytes_in or 0) + len(each)
                yield each

        try:
            async with aclosing(self._inner.stream_stream(counted(), context)) as answers:
                async for each in answers:
                    record.bytes_out += len(each)
                    yield each
            record.status = "OK"
        finally:
            self._end(record, context)

    def _begun(self, context: CallContext) -> RequestRecord:
        given = [value for key, value in context.invocation_metadata() or () if key == _REQUEST_ID]
        name = str(given[0]) if given else uuid4().hex
        record = RequestRecord(client_of(context), "gRPC", self._path, name, status="CANCELLED")
        CURRENT.set(record)
        return record

    def _end(self, record: RequestRecord, context: CallContext) -> None:
        code: Any = context.code()
        if record.status != "OK" and code not in (None, 0):
            record.status = getattr(code, "name", str(code))
        self._log.write(record)
