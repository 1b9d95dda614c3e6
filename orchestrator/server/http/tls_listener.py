"""TLS listener: takes connections, which are those of HTTP once their handshakes have ended."""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
from collections.abc import Callable
from functools import partial

from .acceptor import Acceptor
from .connections import OpenConnections
from .tls_connection import TlsConnection

_LOG = logging.getLogger("rankmesh.server")


class TlsListener:
    """One socket that listens.

    As many handshakes as connections may be under way; a further one takes the place of the oldest.
    Each has the time of a request's headers.
    """

    def __init__(
        self,
        connections: OpenConnections,
        context: Callable[[], ssl.SSLContext],
        sock: socket.socket,
        acceptor: Acceptor,
    ) -> None:
        """Take connections of a socket from here on; `context` gives that of the next handshake."""
        self._connections = connections
        self._context = context
        self._socket = sock
        self._handshakes: dict[asyncio.Task[None], None] = {}  # in the order in which they came
        self._acceptor = acceptor
        self._accepting = connections.loop.create_task(self._accept())

    @property
    def handshakes(self) -> int:
        """How many are under way."""
        return len(self._handshakes)

    def close(self) -> None:
        """Take no more connections, and end the handshakes that are under way."""
        for task in (self._accepting, *self._handshakes):
            task.cancel()
        self._socket.close()

    async def _accept(self) -> None:
        loop = self._connections.loop
        while True:
            accepted = await self._acceptor.accept()
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
