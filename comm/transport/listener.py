"""Listener at a port: recognises another program there, by its first bytes and its process."""

from __future__ import annotations

import socket
import time

_HEARD = 1.0
"""Seconds in which a program that speaks first begins to."""

_WORDS = 64
_SIGNATURE = 10


def first_words(address: str, port: int) -> bytes | None:
    """The first bytes that a listening program sends without being asked.

    None where no program listens.
    """
    said, until = b"", time.monotonic() + _HEARD
    try:
        with socket.create_connection((address, port), timeout=_HEARD) as sock:
            while len(said) < _SIGNATURE and (left := until - time.monotonic()) > 0:
                sock.settimeout(left)
                heard = sock.recv(_WORDS)
                if not heard:
                    break
                said += heard
    except ConnectionRefusedError:
        return None
    except OSError:  # the program sends nothing, or ends the connection
        pass
    return said


def speaks_zeromq(said: bytes | None) -> bool:
    """Whether these are the first bytes of ZeroMQ: https://rfc.zeromq.org/spec/23 (signature)."""
    return said is not None and said[:1] == b"\xff" and said[_SIGNATURE - 1 : _SIGNATURE] == b"\x7f"


def occupied(host: str, port: int, said: bytes | None, process: str = "") -> str:
    """A message that another program has rank 0's port.

    It has the first bytes of the program, and its process if that is known.
    """
    if said:
        words = f", which says {said[:_WORDS].decode('ascii', 'backslashreplace')!r} to newcomers"
    else:
        words = (
            ", which says nothing to newcomers" if said is not None else ", which does not listen"
        )
    number = f" ({process})" if process else ""
    return (
        f"port {port} of {host} is in use by another program{words}{number}: end it, or set "
        "another RANKMESH_PORT on all hosts."
    )


def process_at(port: int) -> str:
    """The process of this host that listens at a port, if the kernel shows it to this user."""
    import psutil

    try:
        found = {
            one.pid
            for one in psutil.net_connections("tcp")
            if one.status == psutil.CONN_LISTEN and one.laddr and one.laddr.port == port and one.pid
        }
        return ", ".join(f"process {pid} ({psutil.Process(pid).name()})" for pid in sorted(found))
    except psutil.Error:
        return ""
