"""Shared listener: takes connections of HTTP beside the other processes of a server."""

from __future__ import annotations

import socket

from .acceptor import Acceptor
from .connection import HttpConnection
from .connections import OpenConnections


class SharedListener:
    """One socket at which several processes listen."""

    def __init__(
        self, connections: OpenConnections, sock: socket.socket, acceptor: Acceptor
    ) -> None:
        """Take connections from here on."""
        self._connections = connections
        self._socket = sock
        self._acceptor = acceptor
        self._accepting = connections.loop.create_task(self._accept())

    def close(self) -> None:
        """Take no more connections."""
        self._accepting.cancel()
        self._socket.close()

    async def _accept(self) -> None:
        connections = self._connections
        while True:
            accepted = await self._acceptor.accept()
            await connections.loop.connect_accepted_socket(
                lambda: HttpConnection(connections), accepted
            )
