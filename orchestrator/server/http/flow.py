"""Flow of one connection: reads while there is room, and tells what its client has not taken."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

_UNSENT = 1 << 18
"""Bytes of responses that may wait for a client before its next request is begun."""

_Bytes = bytes | bytearray | memoryview


class Flow:
    """The transport of a connection, if it is open: a closed one takes nothing, and has nothing."""

    def __init__(self) -> None:
        self.transport: asyncio.Transport | None = None
        self.full = False
        """Whether more bytes wait for the client than may."""

        self._reading = True
        self._known_unsent = 0

    @property
    def unsent(self) -> int:
        """Bytes of responses that the client has not taken."""
        return 0 if self.transport is None else self.transport.get_write_buffer_size()

    def begin(self, transport: asyncio.Transport) -> None:
        """The connection is open."""
        self.transport = transport
        transport.set_write_buffer_limits(_UNSENT)

    def end(self) -> None:
        """The connection is closed."""
        self.transport = None

    def took_more(self) -> bool:
        """Whether the client, with bytes left to take, has taken some since the last call."""
        before, self._known_unsent = self._known_unsent, self.unsent
        return self.unsent not in (0, before)

    def pause(self) -> None:
        """Read no more."""
        if self._reading and self.transport is not None:
            self.transport.pause_reading()
            self._reading = False

    def resume(self) -> None:
        """Read again."""
        if not self._reading and self.transport is not None:
            self.transport.resume_reading()
            self._reading = True

    def send(self, parts: Iterable[_Bytes]) -> None:
        """Send bytes, as far as the client takes them."""
        if self.transport is not None:
            self._known_unsent = 0
            self.transport.writelines(parts)

    def finish(self) -> None:
        """Send nothing after what is unsent."""
        if self.transport is not None and self.transport.can_write_eof():
            self.transport.write_eof()

    def close(self) -> None:
        """Close once nothing is unsent."""
        if self.transport is not None:
            self.transport.close()

    def abort(self) -> None:
        """Close at once."""
        if self.transport is not None:
            self.transport.abort()
