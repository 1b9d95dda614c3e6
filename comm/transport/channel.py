"""Channel: a pair of connected sockets between a supervisor and one rank."""

from __future__ import annotations

import os
import socket

from .message_stream import LONGEST, MessageStream
from .messages import Message, decode, encode


class Channel(MessageStream[Message, Message]):
    """Messages of supervisors and ranks over one stream socket; it has no name."""

    def __init__(self, sock: socket.socket, longest: int = LONGEST) -> None:
        """See MessageStream."""
        super().__init__(sock, encode, decode, longest)

    @staticmethod
    def pair() -> tuple[Channel, Channel]:
        """Make two connected ends."""
        left, right = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        return Channel(left), Channel(right)

    @staticmethod
    def inherited(fd: int) -> Channel:
        """The end that this process inherited as `fd`; its own children do not."""
        os.set_inheritable(fd, False)
        return Channel(socket.socket(fileno=fd))
