"""Listening sockets: one for each address of a server's host."""

from __future__ import annotations

import socket

from ....comm.errors import UsageError

_BACKLOG = 1024


def listening_sockets(host: str, port: int) -> list[socket.socket]:
    """Sockets that listen at `port` of all addresses of `host`; 0: any free one.

    UsageError where the port is taken, or the host is not this one.
    """
    found: list[socket.socket] = []
    try:
        addresses = socket.getaddrinfo(
            host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
        for family, _, _, _, address in dict.fromkeys(addresses):
            found.append(socket.create_server(address, family=family, backlog=_BACKLOG))
            found[-1].setblocking(False)
    except OSError as error:
        for one in found:
            one.close()
        raise UsageError(
            f"port {port} of {host}: {error.strerror or error}. Choose another with --port."
        ) from None
    return found
