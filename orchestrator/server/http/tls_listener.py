"""TLS listener: takes connections, which are those of HTTP once their handshakes have ended."""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
from collections.abc import Callable
from functools import partial

from .connections import OpenConnections
from .tls_connection import TlsConnection

_LOG = logging.getLogger("rankmesh.server")
_BACKLOG = 1024
_PAUSE = 0.1
"""Seconds until the next try where the host has no connection left to give."""


class TlsListener:
    """The sockets of one address.

    As many handshakes as connections may be under way; a further one takes the place of the oldest.
    Each has the time of a request's headers.
    """

    def __init__(self, connections: OpenConnections, context: Callable[[], ssl.SSLContext]) -> None:
        """`context` gives that of the next handshake."""
        self.sockets: list[socket.socket] = []
        self._connections = connections
        self._context = context
        self._accepting: list[asyncio.Task[None]] = []
        self._handshakes: dict[asyncio.Task[None], None] = {}  # in the order in which they came

    async def listen(self, host: str, port: int) -> None:
        """Take connections from here on. Raises OSError where the address cannot be had."""
        loop = self._connections.loop
        found = await loop.getaddrinfo(
            host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
        for family, _, _, _, address in dict.fromkeys(found):
            listener = socket.create_server(address, family=family, backlog=_BACKLOG)
            listener.setblocking(False)
            self.sockets.append(listener)
            self._accepting.append(loop.create_task(self._accept(listener)))

    @property
    def handshakes(self) -> int:
        """How many are under way."""
        return len(self._handshakes)

    def close(self) -> None:
        """Take no more connections, and end the handshakes that are under way."""
        for task in (*self._accepting, *self._handshakes):
            task.cancel()
        for listener in self.sockets:
            listener.close()
        self._accepting.clear()

    async def _accept(self, listener: socket.socket) -> None:
        loop = self._connections.loop
        while True:
            try:
                accepted, _ = await loop.sock_accept(listener)
            except OSError as error:
                _LOG.error("no connection can be taken: %s", error)
                await asyncio.sleep(_PAUSE)
                continue
            if len(self._handshakes) >= self._connections.limits.connections:
                oldest = next(iter(self._handshakes))
                del self._handshakes[oldest]
                oldest.cancel()
            task = loop.create_task(self._shake(accepted))
            self._handshakes[task] = None
            task.add_done_callback(partial(self._ended, accepted))

    def _ended(self, accepted: socket.socket, task: asyncio.Task[None]) -> None:
        self._handshakes.pop(task, None)
        if task.cancelled():  # perhaps before its first step
            accepted.close()

    async def _shake(self, accepted: socket.socket) -> None:
        connections = self._connections
        try:
            await connections.loop.connect_accepted_socket(
                lambda: TlsConnection(connections),
                accepted,
                ssl=self._context(),
                ssl_handshake_timeout=connections.limits.header_seconds,
            )
        except OSError as error:  # of TLS too
            _LOG.debug("a handshake of TLS has failed: %s", error)
            accepted.close()
