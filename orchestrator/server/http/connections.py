"""Connections of one server: counts them, and closes those that are too slow."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable

from .connection_host import Connection
from .eviction import EvictionOrder
from .exchange import Application, BadRequest, HttpResponse
from .head_reader import HeadReader
from .hosts import HostCheck
from .immediate import ImmediateApplication
from .limits import HttpLimits
from .request_head import RequestHead
from .response_head import Clock

OnRefusal = Callable[[str, RequestHead | None, HttpResponse | None], None]
"""Is told what a connection refuses: the client's address, the head if it could be read, and the
response; None where the client is gone before its request has begun.
"""

_SCRATCH = 1 << 16
_SWEEP = 0.5
_REFUSED = 100
"""How many connections without room may be open at a time, each until its client has read that."""


class OpenConnections:
    """The open connections of one loop."""

    def __init__(
        self,
        application: Application,
        limits: HttpLimits,
        hosts: HostCheck,
        on_refusal: OnRefusal | None = None,
        immediate: ImmediateApplication | None = None,
    ) -> None:
        """In the loop that serves."""
        self.immediate = immediate
        self._on_refusal = on_refusal
        self.application = application
        self.limits = limits
        self.hosts = hosts
        self.loop = asyncio.get_running_loop()
        self.clock = Clock()
        self.heads = HeadReader(limits.headers, limits.header_bytes, self._takes_at_once)
        self.scratch = memoryview(bytearray(_SCRATCH))
        """Where bytes are received that have no place yet; each reader copies them at once."""

        self.responses = Counter[int]()
        """How many responses were sent, by status."""

        self._open: set[Connection] = set()
        self._evictions = EvictionOrder()
        self._refused: dict[Connection, None] = {}  # in the order in which they came
        self._timer: asyncio.TimerHandle | None = None
        self._emptied: asyncio.Future[None] | None = None
        self._sweep()

    def __len__(self) -> int:
        return len(self._open)

    def add(self, connection: Connection) -> bool:
        """Add a connection; whether there is room for it. One that waits for its client makes
        room.
        """
        if len(self._open) >= self.limits.connections and not self._evict():
            if len(self._refused) >= _REFUSED:
                oldest = next(iter(self._refused))
                del self._refused[oldest]
                oldest.abort()
            self._refused[connection] = None
            return False
        self._open.add(connection)
        return True

    def remove(self, connection: Connection) -> None:
        """A connection is closed."""
        self._open.discard(connection)
        self._refused.pop(connection, None)
        if not self._open and self._emptied is not None and not self._emptied.done():
            self._emptied.set_result(None)

    def require(self, head: RequestHead) -> None:
        """Raise BadRequest for a request that is too large, or for another host."""
        most = self.limits.body_bytes
        if head.length is not None and head.length > most:
            raise BadRequest(413, f"the body has {head.length} bytes, and may have {most}.")
        self.hosts.require(head.headers)

    def _takes_at_once(self, head: RequestHead) -> int | None:
        """See ImmediateApplication; requests that are to be refused want a task."""
        try:
            self.require(head)
        except BadRequest:
            return None
        return None if self.immediate is None else self.immediate.takes(head)

    def note_refusal(
        self, client: str, head: RequestHead | None, response: HttpResponse | None
    ) -> None:
        """A connection has refused a request."""
        if self._on_refusal is not None and (head is not None or response is not None):
            self._on_refusal(client, head, response)

    async def drain(self, seconds: float) -> None:
        """Close each connection once it is idle, and all after `seconds`."""
        self._emptied = self.loop.create_future()
        for connection in list(self._open):
            connection.close_when_idle()
        if self._open:
            await asyncio.wait([self._emptied], timeout=seconds)
        for connection in list(self._open):
            connection.abort()

    def close(self) -> None:
        """Close all connections, and end the sweep."""
        if self._timer is not None:
            self._timer.cancel()
        for connection in (*self._open, *self._refused):
            connection.abort()

    def _evict(self) -> bool:
        """Close the connection that is the first to make room; whether there is one."""
        found = self._evictions.next(self._open, self.loop.time())
        if found is None:
            return False
        found.abort()
        self._open.discard(found)
        return True

    def _sweep(self) -> None:
        """Close what is too slow."""
        self.clock.set()
        now = self.loop.time()
        for connection in [one for one in (*self._open, *self._refused) if one.deadline < now]:
            connection.expire()
        self._timer = self.loop.call_later(_SWEEP, self._sweep)
