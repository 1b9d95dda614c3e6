"""Inflated calls: handlers of gRPC whose compressed messages are inflated here.

The library would inflate them in the loop. So it hands them on as they came, without a word about
their encoding. The first bytes of gzip and of deflate begin none of the protocol's messages.
"""

from __future__ import annotations

import zlib
from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import cast

from ....comm.errors import InputError
from ..inflation import inflate
from ..steps import StepThreads
from .calls import CallContext, CallHandler, refuse
from .wrapped_call import WrappedCall

_FIRST = (b"\x1f", b"\x78")
_GZIP = b"\x1f\x8b"
_CHECK = 31
"""The first two bytes of deflate, as one number, are a multiple of it."""


def inflating(
    threads: StepThreads, limit: int, handlers: dict[str, CallHandler]
) -> dict[str, CallHandler]:
    """The same handlers for messages that are compressed or not, by the names of their methods.
    Inflated, a message may have `limit` bytes.
    """
    return {name: InflatedCall(threads, limit, one).handler() for name, one in handlers.items()}


class InflatedCall(WrappedCall):
    """One call; of a stream each message is inflated."""

    def __init__(self, threads: StepThreads, limit: int, handler: CallHandler) -> None:
        super().__init__(handler)
        self._threads = threads
        self._limit = limit

    async def _unary(self, body: bytes, context: CallContext) -> bytes:
        if body[:1] in _FIRST:
            body = await self._only(body, context)
        return cast(bytes, await self._inner.unary_unary(body, context))

    async def _stream(self, body: bytes, context: CallContext) -> AsyncIterator[bytes]:
        message = await self._only(body, context)
        async with aclosing(self._inner.unary_stream(message, context)) as answers:
            async for each in answers:
                yield each

    async def _streams(
        self, requests: AsyncIterator[bytes], context: CallContext
    ) -> AsyncIterator[bytes]:
        async def inflated() -> AsyncIterator[bytes]:
            async for each in requests:
                yield await self._inflated(each)

        async with aclosing(self._inner.stream_stream(inflated(), context)) as answers:
            async for each in answers:
                yield each

    async def _only(self, body: bytes, context: CallContext) -> bytes:
        """The only message of a call."""
        try:
            return await self._inflated(body)
        except Exception as error:
            await refuse(context, error)

    async def _inflated(self, body: bytes) -> bytes:
        """A message as it was. Raises InputError, TooLong."""
        if not _is_compressed(body):
            return body
        try:
            return await self._threads.run(inflate(body, self._limit))
        except zlib.error as error:
            raise InputError(f"a message is damaged gzip or deflate: {error}.") from None


def _is_compressed(body: bytes) -> bool:
    if body[:1] == b"\x78":
        return int.from_bytes(body[:2], "big") % _CHECK == 0
    return body.startswith(_GZIP)
