"""Descriptors over a socket: those that arrive are closed on exec from the start, so no child program gets them."""

from __future__ import annotations

import socket
from array import array
from collections.abc import Sequence

_CLOSE_ON_EXEC = socket.MSG_CMSG_CLOEXEC


def send(sock: socket.socket, data: bytes | bytearray, fds: Sequence[int], flags: int = 0) -> int:
    """Send bytes, and duplicates of the descriptors `fds` along with the first of them; how many bytes were sent.

    socket.send_fds ignores its flags up to Python 3.11.
    """
    return sock.sendmsg([data], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array("i", fds))] if fds else (), flags)


def receive(sock: socket.socket, longest: int, most: int, flags: int = 0) -> tuple[bytes, list[int], int]:
    """Up to `longest` bytes, the at most `most` descriptors that came along, and the message's flags (recvmsg(2)).

    socket.recv_fds instead gives descriptors that every child inherits and, up to Python 3.11, ignores its flags.
    """
    fds = array("i")
    room = socket.CMSG_LEN(most * fds.itemsize)
    data, ancillary, message_flags, _ = sock.recvmsg(longest, room, flags | _CLOSE_ON_EXEC)
    for level, kind, content in ancillary:
        if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
            fds.frombytes(content[:len(content) - len(content) % fds.itemsize])
    return data, list(fds), message_flags
