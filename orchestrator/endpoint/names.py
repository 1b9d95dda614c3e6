"""Names of endpoints: checks them, and finds the socket of each."""

from __future__ import annotations

import re

from ...comm.errors import UsageError
from ...comm.transport.local_socket import socket_path

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


def path_of(name: str) -> str:
    """The socket of a name; UsageError where it cannot be one."""
    if not _NAME.fullmatch(name):
        raise UsageError(
            f"got the name {name!r:.80}, expected 1 to 64 letters of A-Z, a-z, 0-9 and `._-`, of "
            "which the first is a letter or digit."
        )
    return socket_path(f"orchestrator {name}")
