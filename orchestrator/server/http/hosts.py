"""Hosts of requests: refuses names that are not the server's, and pages of other sites."""

from __future__ import annotations

import socket
from collections.abc import Iterable, Mapping
from ipaddress import ip_address

from .exchange import BadRequest

ANY_HOST = "*"


class HostCheck:
    """The names under which a server answers. A page whose name was made to point to this host
    cannot reach it by that name, and a page of another site cannot send it a request.
    """

    def __init__(self, allowed: Iterable[str] = ()) -> None:
        """`allowed` names besides localhost, this host's, and all addresses; `*`: every name."""
        self._names = {"localhost", socket.gethostname().lower(), *map(str.lower, allowed)}
        self._known: set[bytes] = set()

    def require(self, headers: Mapping[bytes, bytes]) -> None:
        """Raise BadRequest where a request is meant for another host, or comes from another's
        page.
        """
        host = headers.get(b"host", b"")
        if host not in self._known and host:
            self._check(host)
        origin = headers.get(b"origin")
        if origin is not None and origin.partition(b"://")[2] != host:
            raise BadRequest(403, "pages of other sites may not send requests to this server.")

    def _check(self, host: bytes) -> None:
        name = _name_of(host.decode("latin-1")).lower()
        if ANY_HOST not in self._names and name not in self._names and not _is_address(name):
            raise BadRequest(
                421, "the header Host names another host: start the server with --allow-host NAME."
            )
        if len(self._known) < 100:
            self._known.add(host)


def _name_of(host: str) -> str:
    """The name in a Host header, without port and brackets."""
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host.partition(":")[0]


def _is_address(name: str) -> bool:
    try:
        ip_address(name)
    except ValueError:
        return False
    return True
