"""Acceptor: takes connections of one socket, alone or beside other processes."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Callable

_LOG = logging.getLogger("rankmesh.server")
_PAUSE = 0.1
"""Seconds until the next try where the host has no connection left to give."""

_STEP_BACK = 0.002
"""Seconds in which another process may take a connection first."""


class Acceptor:
    """Takes connections one after the other; a process that has more than another steps back.

    The kernel wakes all processes that wait at a socket, and one that is awake would take them all.
    """

    def __init__(
        self,
        sock: socket.socket,
        loop: asyncio.AbstractEventLoop,
        ahead: Callable[[], bool] | None = None,
    ) -> None:
        """`ahead` tells whether another process has fewer connections; None: there is none."""
        self._socket = sock
        self._loop = loop
        self._ahead = ahead

    async def accept(self) -> socket.socket:
        """The next connection."""
        while True:
            try:
                if self._ahead is None:
                    return (await self._loop.sock_accept(self._socket))[0]
                await self._readable()
                if self._ahead():
                    await asyncio.sleep(_STEP_BACK)
                accepted = self._socket.accept()[0]
                accepted.setblocking(False)
                return accepted
            except BlockingIOError:  # another process was first
                continue
            except OSError as error:
                _LOG.error("no connection can be taken: %s", error)
                await asyncio.sleep(_PAUSE)

    async def _readable(self) -> None:
        """Wait for a connection."""
        there: asyncio.Future[None] = self._loop.create_future()
        self._loop.add_reader(self._socket.fileno(), _set, there)
        try:
            await there
        finally:
            if self._socket.fileno() >= 0:
                self._loop.remove_reader(self._socket.fileno())


def _set(there: asyncio.Future[None]) -> None:
    if not there.done():
        there.set_result(None)
