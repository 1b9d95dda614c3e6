"""HTTP connection: reads requests one after the other, within limits, and sends the responses."""

from __future__ import annotations

import asyncio
from math import inf
from typing import cast

from .connection_host import ConnectionHost, Phase
from .current_request import CurrentRequest
from .exchange import BadRequest, HttpRequest, HttpResponse, address_of, error_response
from .flow import Flow
from .head_parser import HeadParser
from .received_body import ReceivedBody
from .request_head import RequestHead
from .response_head import CONTINUE, sent

_RECEIVING = (Phase.IDLE, Phase.HEAD, Phase.BODY)
_PIPELINED = 1 << 16
"""Bytes of later requests that may wait while one is answered."""

_LEAVE_SECONDS = 2.0
"""How long a client may take to read an error before the connection is closed."""


class HttpConnection(asyncio.BufferedProtocol):
    """One connection of a client.

    Bytes that have no place yet come through memory that all connections of a loop share.
    """

    def __init__(self, server: ConnectionHost) -> None:
        self._server = server
        self._flow = Flow()
        self.phase = Phase.IDLE
        self._pending = bytearray()
        self._parser: HeadParser | None = None
        self._body: ReceivedBody | None = None
        self._client = ""
        self._current: CurrentRequest | None = None
        self._keep_alive = True
        self.deadline = inf
        """The moment of the loop's clock at which the client has been too slow."""

    @property
    def idle(self) -> bool:
        """See Connection."""
        return self.phase in (Phase.IDLE, Phase.HEAD) and not self._flow.unsent

    @property
    def awaits_client(self) -> bool:
        """See Connection."""
        if self.phase is not Phase.ANSWERING:
            return True
        return self._flow.unsent > 0 or self._body is not None and not self._body.complete

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """See asyncio.Protocol."""
        self._flow.begin(cast(asyncio.Transport, transport))  # uvloop's is of no class of asyncio
        self._client = address_of(self._flow.transport)
        if self._server.add(self):
            self._extend(self._server.limits.header_seconds)
        else:
            self._refuse(503, "the server has as many connections as it takes.")

    def connection_lost(self, error: Exception | None) -> None:
        """See asyncio.Protocol. A request whose client is gone is cancelled."""
        self._server.remove(self)
        self._end_request(None)
        self._flow.end()

    def pause_writing(self) -> None:
        """See asyncio.Protocol."""
        self._flow.full = True

    def resume_writing(self) -> None:
        """See asyncio.Protocol."""
        self._flow.full = False
        if self.phase is Phase.IDLE:
            self._await_request()
            self._take()

    def get_buffer(self, sizehint: int) -> memoryview:
        """See asyncio.BufferedProtocol."""
        target = None if self._body is None else self._body.target
        return self._server.scratch if target is None else target

    def buffer_updated(self, nbytes: int) -> None:
        """See asyncio.BufferedProtocol."""
        body = self._body
        if body is not None and body.target is not None and body.length is not None:
            self.deadline += nbytes / self._server.limits.body_rate
            body.received(nbytes)
            if body.complete:
                self.deadline = inf
            return
        self._take(self._server.scratch[:nbytes])

    def close_when_idle(self) -> None:
        """Close after the response that is being made, or now."""
        self._keep_alive = False
        if self.phase in (Phase.IDLE, Phase.HEAD):
            self._close()

    def abort(self) -> None:
        """Close at once; a request is cancelled."""
        self._flow.abort()

    def expire(self) -> None:
        """The deadline has passed: the client is too slow."""
        if self._flow.transport is None:
            return
        if self._flow.took_more():  # in its own time
            self._extend(self._server.limits.write_seconds)
        elif self.phase in (Phase.IDLE, Phase.LEAVING) or self._flow.unsent:
            self._flow.abort()
        else:
            part = "headers" if self.phase is Phase.HEAD else "body"
            self._refuse(408, f"the {part} of the request came too slowly.")

    def _take(self, data: bytes | memoryview = b"") -> None:
        """Take bytes as what they are by the phase of the connection; none: those that came before
        the last response was sent.
        """
        try:
            if self.phase is Phase.LEAVING:
                return
            self._pending += data
            if self._body is not None and not self._body.complete:
                self._take_body(self._body)
            else:
                self._next_request()
            self._pause_if_crowded()
        except BadRequest as error:
            self._refuse(error.status, str(error))

    def _begin_at_once(self, current: CurrentRequest, at: int) -> bool:
        """Begin a request without a task, where the application can, once the beginning of its body
        is there; whether no task is to answer it for now.
        """
        head = current.head
        end = at + (head.immediate or 0)
        if len(self._pending) < end:
            if self.phase is not Phase.BODY:
                self.phase = Phase.BODY
                self._extend(self._server.limits.body_seconds)
            return True
        start = bytes(self._pending[at:end])
        immediate = self._server.immediate
        request = immediate.find(head, start, self._client) if immediate else None
        if request is None:
            return False
        if head.immediate == head.length:
            del self._pending[:end]
            self._await_response(head)
            current.immediate, current.start = request, start
            request.begin(start, self._respond_at_once)
        else:
            del self._pending[:at]
            current.immediate = request
            body = self._receive(head)
            self._take_body(body)
            request.receive(body, self._respond_at_once)
        return True

    def _respond_at_once(self, response: HttpResponse | None) -> None:
        """Send a response that no task has made; without one, have a task make it."""
        current = self._current
        if self._flow.transport is None or current is None:
            return
        if response is not None:
            return self._respond(response)
        self._pending[:0] = current.start
        current.immediate = None
        self._begin(current, admitted=True)

    def _take_body(self, body: ReceivedBody) -> None:
        data, self._pending = self._pending, bytearray()
        self.deadline += len(data) / self._server.limits.body_rate
        if body.length is None:
            assert self._parser is not None
            self._parser.feed_chunks(bytes(data), body)
            self._keep_alive = self._keep_alive and not self._parser.overrun
        else:
            self._pending += data[body.take(memoryview(data)) :]
        if body.complete:  # the client is waited for no more
            self.deadline = inf

    def _next_request(self) -> None:
        """Begin the next request, if its head is there. Raises BadRequest."""
        if self.phase not in _RECEIVING or self._flow.full or not self._pending:
            return
        end = self._server.heads.end(self._pending)
        if not end:
            if self.phase is Phase.IDLE and self._pending:
                self.phase = Phase.HEAD
                self._extend(self._server.limits.header_seconds)
            return
        head, self._parser = self._server.heads.read(bytes(self._pending[:end]))
        self._current = current = CurrentRequest(head)
        if head.immediate is None or not self._begin_at_once(current, end):
            del self._pending[:end]
            self._begin(current)

    def _begin(self, current: CurrentRequest, admitted: bool = False) -> None:
        """Answer a request, whose body may still be on its way; for `admitted` see HttpRequest."""
        head = current.head
        body = self._body or self._receive(head)
        current.request = request = HttpRequest(
            head.method, head.path, head.headers, body, self._client, admitted=admitted
        )
        self._server.require(head)
        current.task = self._server.loop.create_task(self._answer(request))
        self._take_body(body)

    def _receive(self, head: RequestHead) -> ReceivedBody:
        """The body of a request, none of which is taken yet."""
        limits = self._server.limits
        self._body = body = ReceivedBody(head.length, limits.body_bytes, self._wanted)
        self._await_response(head)
        self._extend(limits.body_seconds)
        return body

    def _await_response(self, head: RequestHead) -> None:
        self.phase, self.deadline = Phase.ANSWERING, inf
        self._keep_alive = self._keep_alive and head.keep_alive

    async def _answer(self, request: HttpRequest) -> None:
        response = await self._server.application.answer(request)
        response.bodiless = request.method == "HEAD"
        self._respond(response)

    def _respond(self, response: HttpResponse) -> None:
        """Send a response, then await the next request or close."""
        body, self._body, self._current = self._body, None, None
        if body is not None and not body.complete:
            self._keep_alive = False
        self._send(response, self._keep_alive)
        if body is not None and not body.complete:
            self._leave()
        elif not self._keep_alive:
            self._close()
        else:
            self._await_request()
            if self._pending:
                self._take()

    def _refuse(self, status: int, text: str) -> None:
        """Send an error and close; a task that answers the request is cancelled."""
        response = error_response(status, text)
        self._end_request(response)
        self._send(response, False)
        self._leave()

    def _end_request(self, refusal: HttpResponse | None) -> None:
        """End the current request, if there is one; None: its client is gone."""
        current, self._current, self._body = self._current, None, None
        if current is None:
            self._server.note_refusal(self._client, None, refusal)
        elif not current.end(refusal):
            self._server.note_refusal(self._client, current.head, refusal)

    def _send(self, response: HttpResponse, keep_alive: bool) -> None:
        if self._flow.transport is not None:
            self._server.responses[response.status] += 1
            self._flow.send(sent(response, self._server.clock, keep_alive))

    def _await_request(self) -> None:
        """Wait for a request; while the client takes no response, for that."""
        self.phase = Phase.IDLE
        limits = self._server.limits
        self._extend(limits.write_seconds if self._flow.full else limits.idle_seconds)
        self._flow.resume()

    def _leave(self) -> None:
        """Close once the client has read the response; what it sends till then is dropped."""
        self.phase = Phase.LEAVING
        self._pending.clear()
        self._flow.resume()
        self._flow.finish()
        self._extend(_LEAVE_SECONDS)

    def _close(self) -> None:
        self.phase = Phase.LEAVING
        self._extend(self._server.limits.write_seconds)
        self._flow.close()

    def _wanted(self) -> None:
        """The application waits for bytes of the body."""
        request = None if self._current is None else self._current.request
        if request and request.headers.get(b"expect", b"").lower() == b"100-continue":
            self._flow.send((CONTINUE,))
        self._flow.resume()

    def _pause_if_crowded(self) -> None:
        body = self._body
        if len(self._pending) > _PIPELINED or body is not None and body.crowded:
            self._flow.pause()

    def _extend(self, seconds: float) -> None:
        self.deadline = self._server.loop.time() + seconds
