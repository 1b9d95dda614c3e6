"""Large requests over one plain socket: python socket_load.py PORT bare|http VALUES.npz SECONDS.

`python socket_load.py serve VALUES.npz PORT` is the bare server: it receives as many bytes
as the input has, and sends them back. An HTTP server gets the request of exchange.py. See turns.py.
"""

from __future__ import annotations

import mmap
import socket
import sys
import time
from pathlib import Path

import numpy as np
from exchange import exchange, reply_size
from turns import repeated, take_turns

_HEAD = 4096


def serve(size: int, port: int) -> None:
    """Serve one connection after the other, until it is ended."""
    buffer = _pages(size)
    with socket.create_server(("127.0.0.1", port)) as listener:
        while True:
            connection, _ = listener.accept()
            with connection:
                while _receive(connection, buffer):
                    connection.sendall(buffer)


def _pages(size: int) -> memoryview:
    """Memory that begins with a page. Some processors copy into memory that begins 1 to 16 bytes
    behind the beginning of a page at half the speed, and any `bytearray` may.
    """
    return memoryview(mmap.mmap(-1, size))


def _receive(connection: socket.socket, buffer: memoryview) -> bool:
    """Fill the buffer. False at the end of the connection."""
    filled = 0
    while filled < len(buffer):
        found = connection.recv_into(buffer[filled:])
        if not found:
            return False
        filled += found
    return True


class BareClient:
    """Sends the bytes of `x`, and takes as many back."""

    def __init__(self, values: Path) -> None:
        self.data = np.load(values)["x"].tobytes()
        self.buffer = _pages(len(self.data))

    def call(self, connection: socket.socket) -> float:
        begun = time.monotonic()
        connection.sendall(self.data)
        assert _receive(connection, self.buffer)
        seconds = time.monotonic() - begun
        assert self.buffer == self.data, "the reply has other numbers than the request"
        return seconds


class HttpClient:
    """The same by HTTP, with as little work: the body is received into one buffer."""

    def __init__(self, values: Path) -> None:
        self.wanted = exchange("binary", values)
        self.output = self.wanted.output.tobytes()
        self.buffer = _pages(len(self.output) + _HEAD)

    def call(self, connection: socket.socket) -> float:
        begun = time.monotonic()
        connection.sendall(self.wanted.request)
        filled = size = 0
        while not size or filled < size:
            found = connection.recv_into(self.buffer[filled:])
            assert found, "the server closed the connection"
            filled += found
            size = size or reply_size(bytes(self.buffer[: min(filled, _HEAD)]))
        seconds = time.monotonic() - begun
        assert bytes(self.buffer[:13]) == b"HTTP/1.1 200 "
        assert self.buffer[size - len(self.output) : size] == self.output, "wrong numbers"
        return seconds


def turn(client: BareClient | HttpClient, port: int, seconds: float) -> list[float]:
    """Seconds of the requests of one connection."""
    with socket.create_connection(("127.0.0.1", port)) as connection:
        return repeated(lambda: client.call(connection), time.monotonic() + seconds)


def main() -> None:
    if sys.argv[1] == "serve":
        return serve(np.load(sys.argv[2])["x"].nbytes, int(sys.argv[3]))
    port, kind, values, seconds = sys.argv[1:]
    client = {"bare": BareClient, "http": HttpClient}[kind](Path(values))
    take_turns(lambda: turn(client, int(port), float(seconds)))


if __name__ == "__main__":
    main()
