"""ASGI application: the REST form of the protocol, for servers and frameworks that speak ASGI."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from importlib.metadata import version
from typing import Any, NamedTuple
from urllib.parse import unquote_to_bytes

from ...orchestrator import Orchestrator
from ..access.gate import AccessSettings, Gate
from ..access.guarded_application import GuardedApplication
from ..http.exchange import Application, BadRequest, HttpRequest, HttpResponse
from ..management_settings import ManagementSettings
from ..server_state import ServerState
from .application import RestApplication

Event = dict[str, Any]
Receive = Callable[[], Awaitable[Event]]
Send = Callable[[Event], Awaitable[None]]
AsgiApplication = Callable[[Event, Receive, Send], Awaitable[None]]
_BODY_BYTES = 1 << 30


def asgi_app(
    orchestrator: Orchestrator,
    *,
    max_body_bytes: int = _BODY_BYTES,
    tokens: str | None = None,
    management: bool = False,
    weights_folder: str | None = None,
    strict_json: bool = False,
) -> AsgiApplication:
    """An ASGI application that serves all models of an orchestrator.

    Bodies may have `max_body_bytes`, and `tokens` is a file of tokens. With `management` clients
    may load and unload models and update weights from files in `weights_folder`. With `strict_json`
    answers have null for NaN and infinities. Time limits, hosts and ports are the server's that
    runs it. Raises UsageError where the file cannot be used.
    """
    gate = Gate.wanted(AccessSettings(tokens))

    def served() -> ServedLoop:
        state = ServerState(ManagementSettings(management, weights_folder))
        rest = RestApplication(state, version("rankmesh"), max_body_bytes, strict_json=strict_json)
        state.start(orchestrator)
        return ServedLoop(state, rest if gate is None else GuardedApplication(rest, gate))

    return AsgiRest(served, max_body_bytes)


class ServedLoop(NamedTuple):
    """State and application of one event loop."""

    state: ServerState
    application: Application


class AsgiRest:
    """Exchanges of ASGI as requests and responses of the REST application."""

    def __init__(self, served: Callable[[], ServedLoop], body_limit: int) -> None:
        """`served` makes what serves the exchanges of the running loop."""
        self._served = served
        self._limit = body_limit
        self._loops: dict[asyncio.AbstractEventLoop, ServedLoop] = {}

    async def __call__(self, scope: Event, receive: Receive, send: Send) -> None:
        """See ASGI."""
        application = self._of_this_loop().application
        if scope["type"] == "lifespan":
            await _live(receive, send)
        elif scope["type"] == "http":
            await self._exchange(application, scope, receive, send)
        else:
            await send({"type": "websocket.close"})

    def _of_this_loop(self) -> ServedLoop:
        """Those of the running loop. Tests of frameworks run a loop for each request."""
        loop = asyncio.get_running_loop()
        found = self._loops.get(loop)
        if found is None:
            for ended in [one for one in self._loops if one.is_closed()]:
                self._loops.pop(ended).state.close()
            found = self._loops[loop] = self._served()
        return found

    async def _exchange(
        self, application: Application, scope: Event, receive: Receive, send: Send
    ) -> None:
        headers = _headers(scope["headers"])
        body = AsgiBody(receive, headers.get(b"content-length"), self._limit)
        request = HttpRequest(scope["method"], _path(scope), headers, body)
        answer = asyncio.create_task(application.answer(request))
        gone = asyncio.create_task(body.client_gone())
        try:
            await asyncio.wait((answer, gone), return_when=asyncio.FIRST_COMPLETED)
            if answer.done():
                response = answer.result()
                response.bodiless = request.method == "HEAD"
                await _respond(response, send)
        finally:
            for task in (answer, gone):
                task.cancel()
                with suppress(asyncio.CancelledError):
                    await task


class AsgiBody:
    """The body of one request, from ASGI's events."""

    def __init__(self, receive: Receive, length: bytes | None, limit: int) -> None:
        self.length = int(length) if length is not None and length.isdigit() else None
        self._receive = receive
        self._limit = limit
        self._waiting = bytearray()
        self._count = 0
        self._complete = asyncio.Event()
        self._gone = asyncio.Event()

    async def client_gone(self) -> None:
        """Return once the client is gone, before the body has come or after it."""
        await self._complete.wait()
        while not self._gone.is_set():
            await self._next()

    async def read(self, size: int) -> bytes:
        """See BodyStream."""
        while len(self._waiting) < size and not self._complete.is_set():
            await self._next()
        if len(self._waiting) < size:
            raise BadRequest(
                400, f"the body ends early: {size} bytes were announced, got {len(self._waiting)}."
            )
        found = bytes(self._waiting[:size])
        del self._waiting[:size]
        return found

    async def read_rest(self) -> bytes:
        """See BodyStream."""
        while not self._complete.is_set():
            await self._next()
        return await self.read(len(self._waiting))

    async def read_into(self, memory: memoryview) -> None:
        """See BodyStream."""
        memory[:] = await self.read(len(memory))

    async def _next(self) -> None:
        event = await self._receive()
        if event["type"] == "http.disconnect":
            self._gone.set()
            self._complete.set()
            return
        part = event.get("body", b"")
        self._count += len(part)
        if self._count > self._limit:
            raise BadRequest(413, f"the body has more than {self._limit} bytes: send less at once.")
        self._waiting += part
        if not event.get("more_body"):
            self._complete.set()


async def _respond(response: HttpResponse, send: Send) -> None:
    length = (b"content-length", b"%d" % response.length)
    headers = [*response.headers, length]
    await send({"type": "http.response.start", "status": response.status, "headers": headers})
    for part in () if response.bodiless else response.parts:
        await send({"type": "http.response.body", "body": bytes(part), "more_body": True})
    await send({"type": "http.response.body", "body": b""})


async def _live(receive: Receive, send: Send) -> None:
    """Answer the events of a server's own start and end."""
    while True:
        event = await receive()
        await send({"type": f"{event['type']}.complete"})
        if event["type"] == "lifespan.shutdown":
            return


def _headers(given: Iterable[tuple[bytes, bytes]]) -> dict[bytes, bytes]:
    found: dict[bytes, bytes] = {}
    for name, value in given:
        found[name] = value if name not in found else b"%b, %b" % (found[name], value)
    return found


def _path(scope: Event) -> list[str]:
    """The parts of the path below the place where the application is mounted."""
    mounted = scope.get("root_path", "").rstrip("/").encode()
    raw: bytes = scope.get("raw_path") or scope["path"].encode()
    parts = raw.removeprefix(mounted).lstrip(b"/").split(b"/")
    return [unquote_to_bytes(part).decode("utf-8", "replace") for part in parts]
