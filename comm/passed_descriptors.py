"""Descriptors that arrive over a socket: each is closed on exec from the start, so that no child program gets it."""

from __future__ import annotations

import socket
from array import array

_CLOSE_ON_EXEC = socket.MSG_CMSG_CLOEXEC


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
