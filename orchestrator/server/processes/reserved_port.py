"""Reserved port: kept for the processes of one server, which listen there beside each other."""

from __future__ import annotations

import socket

from ....comm.errors import UsageError


def reserved_port(host: str, port: int) -> socket.socket:
    """A socket that has a port of `host`, and takes no connections; 0: any free port.

    From here on sockets of this user with SO_REUSEPORT may listen there, and no others. UsageError
    where any other program has the port.
    """
    try:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        found = socket.socket(family, socket.SOCK_STREAM)
        try:
            found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            found.bind(address)  # alone: it fails where another program shares the port
            found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        except OSError:
            found.close()
            raise
    except OSError as error:
        raise UsageError(
            f"port {port} of {host} cannot be had for gRPC: {error.strerror or error}. Choose "
            "another with --grpc-port."
        ) from None
    return found
