"""The program that listens at a port: what it says to a newcomer, and which process of this host it is."""

from __future__ import annotations

import socket
import time

_HEARD = 1.0
"""Seconds in which a program that speaks first has begun to."""

_WORDS = 64
_SIGNATURE = 10


def first_words(address: str, port: int) -> bytes | None:
    """What whoever listens there says to a connection, without being asked; None where nobody listens."""
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
    except OSError:  # it says nothing, or ends the connection
        pass
    return said


def speaks_zeromq(said: bytes | None) -> bool:
    """Whether these first words are ZeroMQ's: https://rfc.zeromq.org/spec/23 (signature)."""
    return said is not None and said[:1] == b"\xff" and said[_SIGNATURE - 1:_SIGNATURE] == b"\x7f"


def occupied(host: str, port: int, said: bytes | None, process: str = "") -> str:
    """That another program has rank 0's port, for messages: which one, by its first words and as a process."""
    if said:
        words = f", which says {said[:_WORDS].decode('ascii', 'backslashreplace')!r} to newcomers"
    else:
        words = ", which says nothing to newcomers" if said is not None else ", which does not listen"
    number = f" ({process})" if process else ""
    return (f"port {port} of {host} is in use by another program{words}{number}: end it, or set another RANKMESH_PORT "
            f"on all hosts.")


def process_at(port: int) -> str:
    """The process of this host that listens at a port, as far as the kernel tells this user."""
    import psutil

    try:
        found = {one.pid for one in psutil.net_connections("tcp")
                 if one.status == psutil.CONN_LISTEN and one.laddr and one.laddr.port == port and one.pid}
        return ", ".join(f"process {pid} ({psutil.Process(pid).name()})" for pid in sorted(found))
    except psutil.Error:
        return ""
