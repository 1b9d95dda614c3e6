"""Connections behind real sockets: an application of tests, and a server of it in a thread."""

from __future__ import annotations

import asyncio
import socket
import ssl
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, cast

import uvloop
from processes import PATIENCE

from rankmesh.orchestrator.server.access.gate import Gate
from rankmesh.orchestrator.server.access.guarded_application import GuardedApplication
from rankmesh.orchestrator.server.frontend.immediate_requests import ImmediateRequests
from rankmesh.orchestrator.server.frontend.listening_sockets import listening_sockets
from rankmesh.orchestrator.server.http.acceptor import Acceptor
from rankmesh.orchestrator.server.http.connection import HttpConnection
from rankmesh.orchestrator.server.http.connections import OpenConnections
from rankmesh.orchestrator.server.http.exchange import BadRequest, HttpRequest, HttpResponse
from rankmesh.orchestrator.server.http.hosts import HostCheck
from rankmesh.orchestrator.server.http.immediate import Respond
from rankmesh.orchestrator.server.http.limits import HttpLimits
from rankmesh.orchestrator.server.http.received_body import ReceivedBody
from rankmesh.orchestrator.server.http.request_head import RequestHead
from rankmesh.orchestrator.server.http.tls_listener import TlsListener

WHOLE, START = 1000, 10
"""Bytes of a body that ImmediateAnswers has whole before it begins, and of the first of another."""


class Application:
    """Echoes bodies; `/wait` never answers, `/large` has 32 MB, `/direct` reads in place."""

    def __init__(self) -> None:
        self.begun = 0
        self.waiting = 0
        self.cancelled = 0
        self.large = 0

    async def answer(self, request: HttpRequest) -> HttpResponse:
        self.begun += 1
        try:
            return await self._answered(request)
        except BadRequest as error:
            return HttpResponse(error.status)

    async def _answered(self, request: HttpRequest) -> HttpResponse:
        if request.path == ["large"]:
            self.large += 1
            return HttpResponse(200, (memoryview(bytearray(32 << 20)),))
        if request.path == ["ignore"]:
            return HttpResponse(404)
        if request.path == ["direct"]:
            assert request.body.length is not None
            first = await request.body.read(3)
            memory = bytearray(request.body.length - 3)
            await request.body.read_into(memoryview(memory))
            return HttpResponse(200, (first, memory))
        if request.path == ["wait"]:
            self.waiting += 1
            try:
                await asyncio.Event().wait()
            finally:
                self.cancelled += 1
        return HttpResponse(200, (await request.body.read_rest(),))


class ImmediateAnswers:
    """Answers `/at-once` without a task, and `/begun` in one after all."""

    def takes(self, head: RequestHead) -> int | None:
        if head.path not in (["at-once"], ["begun"], ["task"]) or head.length is None:
            return None
        return head.length if head.length <= WHOLE else START

    def find(self, head: RequestHead, start: bytes) -> AtOnce | None:
        return None if head.path == ["task"] else AtOnce(head.path == ["begun"], start)


class AtOnce:
    """One request, its own exchange, and its body while that comes."""

    def __init__(self, task: bool, start: bytes) -> None:
        self._task = task
        self._start = start
        self._body: ReceivedBody | None = None

    def request(self, *_: None) -> AtOnce:
        return self

    def begin(self, body: bytes, respond: Respond) -> None:
        found = None if self._task else HttpResponse(200, (b"at once: ", body))
        asyncio.get_running_loop().call_soon(respond, found)

    def receive(self, body: ReceivedBody, respond: Respond) -> None:
        assert body.length is not None
        self._body = body
        memory = memoryview(bytearray(body.length - START))
        half = len(memory) // 2

        def filled() -> None:
            if self._task:
                body.give_back(self._start + bytes(memory))
            self.begin(self._start + bytes(memory), respond)

        body.fill(START, iter((memory[:half], memory[:0], memory[half:])), filled)

    def cancel(self, refusal: HttpResponse | None = None) -> None:
        if self._body is not None:
            self._body.drop()


class Served:
    """The server of a test, in a thread."""

    def __init__(
        self,
        port: int,
        application: Application,
        connections: OpenConnections,
        listener: Any,
    ) -> None:
        self.port = port
        self.application = application
        self.connections = connections
        self.listener = listener

    def connect(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.port), PATIENCE)

    def exchange(self, *parts: bytes, pause: float = 0) -> bytes:
        """All that comes back for these bytes, until the server closes."""
        with self.connect() as client:
            for part in parts:
                try:
                    client.sendall(part)
                except (BrokenPipeError, ConnectionResetError):
                    break
                time.sleep(pause)
            return received(client)

    def answer(self, *parts: bytes, pause: float = 0) -> bytes:
        """The same, again where the machine was too slow to send the first byte in time: such a
        connection is closed without a word.
        """
        deadline = time.monotonic() + PATIENCE
        while not (found := self.exchange(*parts, pause=pause)):
            assert time.monotonic() < deadline, f"no answer in {PATIENCE} s"
        return found


def received(client: socket.socket) -> bytes:
    found = bytearray()
    try:
        while part := client.recv(1 << 20):
            found += part
    except ConnectionResetError:
        pass
    return bytes(found)


@contextmanager
def served(
    limits: HttpLimits, context: ssl.SSLContext | None = None, gate: Gate | None = None
) -> Iterator[Served]:
    """A server, with TLS where a context is given, and behind a gate where there is one."""
    loop = uvloop.new_event_loop()
    application = Application()
    listeners: list[Any] = []

    async def begin() -> Served:
        answers = ImmediateAnswers()
        connections = OpenConnections(
            application if gate is None else GuardedApplication(application, gate),
            limits,
            HostCheck(),
            immediate=ImmediateRequests(cast(Any, answers), gate, None),
        )
        (sock,) = listening_sockets("127.0.0.1", 0)
        port = sock.getsockname()[1]
        listener: Any
        if context is None:
            listener = await loop.create_server(lambda: HttpConnection(connections), sock=sock)
        else:
            listener = TlsListener(connections, lambda: context, sock, Acceptor(sock, loop))
        listeners.append(listener)
        return Served(port, application, connections, listener)

    async def end() -> None:
        listeners[0].close()
        await found.connections.drain(PATIENCE)
        found.connections.close()

    found = loop.run_until_complete(begin())
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    try:
        try:
            yield found
        finally:
            asyncio.run_coroutine_threadsafe(end(), loop).result(2 * PATIENCE)
        assert len(found.connections) == 0
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()
