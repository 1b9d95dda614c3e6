"""Load of any HTTP server: python http_load.py PORT FORM VALUES.npz CLIENTS SECONDS.

The same generator for all servers, on uvloop. Each client has a connection, and sends its request
again when the reply is there and right. See turns.py.
"""

from __future__ import annotations

import asyncio
import sys
import time
from pathlib import Path
from typing import Any

import uvloop
from exchange import Exchange, exchange, reply_size
from turns import take_turns

_END = b"\r\n\r\n"
_HEAD = 4096
_LATE = 30.0


class Client(asyncio.Protocol):
    """One connection."""

    def __init__(self, wanted: Exchange, end: float) -> None:
        self.seconds: list[float] = []
        self._wanted = wanted
        self._end = end
        self._received = bytearray()
        self._size = 0
        self._expected = b""
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: Any) -> None:
        self._transport = transport
        self._send()

    def data_received(self, data: bytes) -> None:
        self._received += data
        if not self._size:
            self._size = reply_size(bytes(self._received[:_HEAD]))
        if self._size and len(self._received) >= self._size:
            self._reply()

    def connection_lost(self, error: Exception | None) -> None:
        if not self.done.done():
            self.done.set_exception(ConnectionError(f"the server closed the connection: {error}"))

    def _send(self) -> None:
        self._begun = time.monotonic()
        self._transport.write(self._wanted.request)

    def _reply(self) -> None:
        now = time.monotonic()
        self.seconds.append(now - self._begun)
        try:
            self._check(bytes(self._received))
        except AssertionError as error:
            self.done.set_exception(error)
        if now < self._end and not self.done.done():
            self._received.clear()
            self._size = 0
            return self._send()
        if not self.done.done():
            self.done.set_result(None)
        self._transport.abort()

    def _check(self, found: bytes) -> None:
        assert found.startswith(b"HTTP/1.1 200 "), found[:300]
        if not self._expected:
            self._expected = self._wanted.expected(found.partition(_END)[2])
        assert self._expected in found, "the reply has other numbers than the first"


async def load(port: int, wanted: Exchange, clients: int, seconds: float) -> list[float]:
    """Seconds of each request."""
    loop = asyncio.get_running_loop()
    end = time.monotonic() + seconds
    made = [
        await loop.create_connection(lambda: Client(wanted, end), "127.0.0.1", port)
        for _ in range(clients)
    ]
    await asyncio.wait_for(asyncio.gather(*(client.done for _, client in made)), seconds + _LATE)
    return [one for _, client in made for one in client.seconds]


def main() -> None:
    port, form, values, clients, seconds = sys.argv[1:]
    wanted = exchange(form, Path(values))
    take_turns(lambda: uvloop.run(load(int(port), wanted, int(clients), float(seconds))))


if __name__ == "__main__":
    main()
