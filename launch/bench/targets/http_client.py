"""HTTP client: one connection to a server, with one request at a time."""

from __future__ import annotations

import asyncio
import ssl
from typing import cast

import httptools

from .reply import HttpReply, RequestFailed
from .server_address import ServerAddress


class HttpClient:
    """A connection that is opened when it is needed, and again after a failure."""

    def __init__(self, address: ServerAddress, context: ssl.SSLContext | None) -> None:
        self._address = address
        self._context = context
        self._reader: _ReplyReader | None = None

    async def send(self, request: bytes, timeout: float) -> HttpReply:
        """The response to a request. Raises RequestFailed."""
        try:
            if self._reader is None or self._reader.lost:
                self._reader = await asyncio.wait_for(self._connected(), timeout)
            return await self._reader.send(request, timeout)
        except asyncio.TimeoutError:
            self.close()
            raise RequestFailed("timeout", f"no answer within {timeout:.3g} s.") from None
        except (OSError, httptools.HttpParserError) as error:
            self.close()
            text = f"{error or type(error).__name__}."
            raise RequestFailed("connection", text) from None
        except BaseException:  # what comes for this request must not be taken for the next one's
            self.close()
            raise

    async def _connected(self) -> _ReplyReader:
        address = self._address
        loop = asyncio.get_running_loop()
        name = address.host if self._context is not None else None
        _, reader = await loop.create_connection(
            _ReplyReader, address.host, address.port, ssl=self._context, server_hostname=name
        )
        return reader

    def close(self) -> None:
        """Close the connection, where it is open."""
        if self._reader is not None:
            self._reader.close()
            self._reader = None


class _ReplyReader(asyncio.Protocol):
    """The responses of one connection."""

    def __init__(self) -> None:
        self.lost = False
        self._transport: asyncio.Transport | None = None
        self._parser = httptools.HttpResponseParser(self)
        self._waiter: asyncio.Future[HttpReply] | None = None
        self._head = -1
        self._parts: list[bytes] = []

    async def send(self, request: bytes, timeout: float) -> HttpReply:
        """The response to a request.

        Raises ConnectionError where the server closes before, asyncio.TimeoutError.
        """
        assert self._transport is not None
        loop = asyncio.get_running_loop()
        self._waiter = loop.create_future()
        timer = loop.call_later(timeout, self._fail, asyncio.TimeoutError())
        self._transport.write(request)
        try:
            return await self._waiter
        finally:
            timer.cancel()

    def close(self) -> None:
        """Close the connection at once."""
        self.lost = True
        if self._transport is not None:
            self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """See Protocol."""
        self._transport = cast(asyncio.Transport, transport)  # uvloop's derives from nothing

    def data_received(self, data: bytes) -> None:
        """See Protocol."""
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError as error:
            self._fail(error)
            self.close()

    def connection_lost(self, error: Exception | None) -> None:
        """See Protocol."""
        self.lost = True
        self._fail(error or ConnectionError("the server closed the connection"))

    def on_header(self, name: bytes, value: bytes) -> None:
        """See httptools."""
        if name.lower() == b"inference-header-content-length" and value.isdigit():
            self._head = int(value)

    def on_body(self, part: bytes) -> None:
        """See httptools."""
        self._parts.append(part)

    def on_message_complete(self) -> None:
        """See httptools."""
        body = self._parts[0] if len(self._parts) == 1 else b"".join(self._parts)
        reply = HttpReply(self._parser.get_status_code(), self._head, body)
        self._parts, self._head = [], -1
        if not self._parser.should_keep_alive():
            self.close()
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(reply)

    def _fail(self, error: Exception) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_exception(error)
