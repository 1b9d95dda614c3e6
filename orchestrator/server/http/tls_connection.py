"""TLS connection: a connection of HTTP that encrypts no more than its client takes."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any, cast

from .connection import HttpConnection

_PIECE = 1 << 16
"""Bytes that are encrypted at a time."""

_Bytes = bytes | bytearray | memoryview


class TlsConnection(HttpConnection):
    """One connection of a client.

    A transport of TLS would encrypt a whole response at once, and no longer know what of it the
    client has not taken: a client that reads nothing would not be noticed.
    """

    _paced: PacedTransport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """See asyncio.Protocol."""
        self._paced = PacedTransport(cast(asyncio.Transport, transport), super().pause_writing)
        super().connection_made(self._paced)

    def pause_writing(self) -> None:
        """See asyncio.Protocol."""
        self._paced.full = True

    def resume_writing(self) -> None:
        """See asyncio.Protocol."""
        if self._paced.resumed():
            super().resume_writing()


class PacedTransport(asyncio.Transport):
    """A transport of TLS that is given the next piece when it has sent the last ones."""

    def __init__(self, transport: asyncio.Transport, crowded: Callable[[], None]) -> None:
        """`crowded` is called when bytes begin to wait."""
        super().__init__()
        self.full = False
        """Whether the transport takes no more for now."""

        self._transport = transport
        self._crowded = crowded
        self._waiting: deque[memoryview] = deque()
        self._closing = False
        transport.set_write_buffer_limits(_PIECE)

    def resumed(self) -> bool:
        """The transport takes more; whether nothing is left to give it."""
        self.full = False
        self._pump()
        return not self._waiting

    def get_extra_info(self, name: str, default: object = None) -> Any:
        """See asyncio.BaseTransport."""
        return self._transport.get_extra_info(name, default)

    def write(self, data: _Bytes) -> None:
        """See asyncio.WriteTransport."""
        self.writelines((data,))

    def writelines(self, list_of_data: Iterable[_Bytes]) -> None:
        """See asyncio.WriteTransport; the parts are not copied."""
        crowded = bool(self._waiting)
        views = (memoryview(part).cast("B") for part in list_of_data if len(part))
        if not crowded and not self.full:
            self._transport.writelines(self._first(views))
        self._waiting.extend(views)
        self._pump()
        if self._waiting and not crowded:
            self._crowded()

    def get_write_buffer_size(self) -> int:
        """See asyncio.WriteTransport."""
        return self._transport.get_write_buffer_size() + sum(map(len, self._waiting))

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """See asyncio.WriteTransport. A piece is the limit."""

    def can_write_eof(self) -> bool:
        """See asyncio.WriteTransport."""
        return False

    def pause_reading(self) -> None:
        """See asyncio.ReadTransport."""
        self._transport.pause_reading()

    def resume_reading(self) -> None:
        """See asyncio.ReadTransport."""
        self._transport.resume_reading()

    def close(self) -> None:
        """See asyncio.BaseTransport: close once all is sent."""
        self._closing = True
        self._pump()

    def abort(self) -> None:
        """See asyncio.WriteTransport."""
        self._waiting.clear()
        self._transport.abort()

    def _first(self, views: Iterable[memoryview]) -> list[memoryview]:
        """The small parts at the beginning, in one write; the rest of the first large one waits."""
        taken: list[memoryview] = []
        for view in views:
            taken.append(view[:_PIECE])
            if len(view) > _PIECE:
                self._waiting.append(view[_PIECE:])
                break
        return taken

    def _pump(self) -> None:
        waiting = self._waiting
        while waiting and not self.full:
            view = waiting.popleft()
            if len(view) > _PIECE:
                waiting.appendleft(view[_PIECE:])
            self._transport.write(view[:_PIECE])
        if self._closing and not waiting:
            self._transport.close()
