"""Connections to a ZeroMQ server, as the kernel sees them: bounds on strangers and their bytes.

ZeroMQ accepts every connection, and collects all parts of a message before their number can be
seen. So two bounds are kept from outside: the number of connections that no rank has shown to be
its own, and the bytes that a connection may send before they make a whole message.
"""

from __future__ import annotations

import os
import resource
import socket
import struct
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from typing import TypeVar

T = TypeVar("T")
MOST_STRANGERS = 256
"""Connections that may be on their way to become a rank's, beside one for each rank."""

_EVERY = "0.0.0.0"  # nosec B104  # where the user has chosen it
_STRANGERS_BYTES = 1 << 16
_BEATS = 1 << 10
"""Bytes that heartbeats bring each second at most."""

_RECEIVED = struct.Struct("<128xQ")
"""struct tcp_info of linux/tcp.h, up to tcpi_bytes_received."""

_RESERVE = 1024


class _Connection:
    """One connection: its address, and whether it is a rank's.

    `received` and `since` are of the time when its last message was whole.
    """

    def __init__(self, address: str) -> None:
        self.address = address
        self.member = False
        self.received = 0
        self.since = time.monotonic()


class Connections:
    """The connections that a socket listening at `place` has accepted. For one thread.

    They are known by their descriptors. These belong to the library, which may close one at any
    time: each is looked at by a duplicate.
    """

    def __init__(self, place: tuple[str, int], ranks: int, longest: int) -> None:
        """A rank's message may have `longest` bytes, with all framing."""
        self._place = place
        self._most = MOST_STRANGERS + ranks
        self._longest = longest
        self._connections: dict[int, _Connection] = {}
        _reserve_descriptors()
        self._nothing = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
        # A look needs no further descriptor, even where none is left.
        self._spare = os.dup(self._nothing)

    def accepted(self, fd: int) -> None:
        """Note that the library has accepted a connection."""
        address = self._of(fd, lambda sock: sock.getpeername()[0])
        if address is not None:
            self._connections[fd] = _Connection(address)

    def ended(self, fd: int) -> None:
        """Note that the library has closed a connection."""
        self._connections.pop(fd, None)

    def spoke(self, fd: int) -> None:
        """Note that a whole message has come over a connection."""
        connection = self._connections.get(fd)
        if connection is not None and connection.member:
            connection.received, connection.since = self._received(fd), time.monotonic()

    def address_of(self, fd: int) -> str:
        """The address at the other end; "" where the connection is gone."""
        connection = self._connections.get(fd)
        return "" if connection is None else connection.address

    def trust(self, fd: int) -> None:
        """Note that a connection is a rank's, which may send long messages."""
        if fd in self._connections:
            self._connections[fd].member = True
            self.spoke(fd)

    def end(self, fd: int) -> None:
        """Shut a connection down: the library loses it."""
        self._of(fd, lambda sock: sock.shutdown(socket.SHUT_RDWR))
        self.ended(fd)

    def look(self) -> None:
        """End the connections that exceed their bounds."""
        for fd, connection in list(self._connections.items()):
            if self._received(fd) - connection.received > self._allowed(connection):
                self.end(fd)
        strangers = {fd: one.address for fd, one in self._connections.items() if not one.member}
        crowds = Counter(strangers.values())
        for _ in range(len(strangers) - self._most):
            ((crowd, _),) = crowds.most_common(1)
            oldest = next(fd for fd, address in strangers.items() if address == crowd)
            del strangers[oldest]
            crowds[crowd] -= 1
            self.end(oldest)

    def close(self) -> None:
        """Close the own descriptors."""
        os.close(self._spare)
        os.close(self._nothing)

    def _allowed(self, connection: _Connection) -> float:
        beats = _BEATS * (time.monotonic() - connection.since)
        return beats + (self._longest if connection.member else _STRANGERS_BYTES)

    def _received(self, fd: int) -> int:
        """Bytes that have come over a connection so far; 0 where it is gone."""
        info = self._of(
            fd, lambda sock: sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _RECEIVED.size)
        )
        return int(_RECEIVED.unpack(info)[0]) if info and len(info) == _RECEIVED.size else 0

    def _of(self, fd: int, ask: Callable[[socket.socket], T]) -> T | None:
        """The result of `ask` for a connection.

        None where the descriptor is not, or no longer, that of a connection to this address.
        """
        try:
            os.dup2(fd, self._spare, inheritable=False)
            sock = socket.socket(fileno=self._spare)
            try:
                return ask(sock) if self._is_at_place(sock) else None
            finally:
                sock.detach()
        except OSError:
            return None
        finally:
            os.dup2(self._nothing, self._spare, inheritable=False)

    def _is_at_place(self, sock: socket.socket) -> bool:
        """Whether a connection is to where this listens, maybe at every address of the host."""
        host, port = self._place
        if host != _EVERY:
            return bool(sock.getsockname() == self._place)
        return sock.family is socket.AF_INET and sock.getsockname()[1] == port


@cache
def _reserve_descriptors() -> None:
    """Raise the limit of descriptors for those of strangers, as far as the system allows."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = soft + _RESERVE
    if soft != resource.RLIM_INFINITY and (hard == resource.RLIM_INFINITY or wanted <= hard):
        with suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
