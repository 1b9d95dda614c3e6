"""A pair of connected sockets that carries whole messages between a supervisor and one rank."""

from __future__ import annotations

import os
import socket
import struct
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import msgspec

from .messages import Message, decode, encode
from .passed_descriptors import receive, send

_LENGTH = struct.Struct("<Q")
LONGEST = 1 << 30
"""Bytes of one message."""
_MOST_FDS = 8


class ChannelClosed(ConnectionError):
    """The other side is gone; a subclass says where it is there, but of no use any more."""


class ChannelGarbled(ChannelClosed):
    """The other side sent what is no message: nothing that comes after it can be read either."""


class ChannelSilent(ChannelClosed):
    """The other side took or sent nothing for as long as the socket's timeout says."""


class Channel:
    """Messages over one stream socket, each behind its length; made by `pair`, never by name.

    After any error the stream may have stopped inside a message: the channel is of no use any more.
    """

    def __init__(self, sock: socket.socket, longest: int = LONGEST) -> None:
        """`longest` is how many bytes a message from the other side may have; it may change."""
        self._socket, self.longest = sock, longest
        self._received = bytearray()
        self._unsent = bytearray()
        self._unsent_fds: Sequence[int] = ()

    @staticmethod
    def pair() -> tuple[Channel, Channel]:
        """Two connected ends."""
        left, right = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        return Channel(left), Channel(right)

    @staticmethod
    def inherited(fd: int) -> Channel:
        """The end that this process inherited as file descriptor `fd`; its own children do not."""
        os.set_inheritable(fd, False)
        return Channel(socket.socket(fileno=fd))

    def fileno(self) -> int:
        """The descriptor, for selectors and for inheritance."""
        return self._socket.fileno()

    def send(self, message: Message) -> None:
        """Send one message whole; ChannelClosed if nobody is there."""
        data = encode(message)
        with _closing():
            self._socket.sendall(_LENGTH.pack(len(data)) + data)

    def post(self, message: Message, fds: Sequence[int] = ()) -> None:
        """Take one message for `flush` to send, with duplicates of descriptors if nothing else waits to be sent."""
        data = encode(message)
        assert not (fds and self._unsent)  # they go with the first bytes
        self._unsent += _LENGTH.pack(len(data)) + data
        self._unsent_fds = fds or self._unsent_fds

    def flush(self) -> bool:
        """Send what the socket takes of the posted messages without waiting; whether that was all."""
        with _closing():
            while self._unsent:
                try:
                    del self._unsent[:send(self._socket, self._unsent, self._unsent_fds, socket.MSG_DONTWAIT)]
                except BlockingIOError:
                    return False
                self._unsent_fds = ()
        return True

    def send_with_fd(self, message: Message, fd: int) -> None:
        """Send one message with a duplicate of the descriptor `fd`."""
        data = encode(message)
        with _closing():
            send(self._socket, _LENGTH.pack(len(data)) + data, [fd])

    def receive_with_fds(self) -> tuple[Message, list[int]]:
        """Wait for one whole message and the descriptors that came with it."""
        with _closing():
            data, fds, _ = receive(self._socket, 1 << 16, _MOST_FDS)
            if not data:
                raise ConnectionResetError
        self._received += data
        return self._take() or self.receive(), fds

    def receive(self) -> Message:
        """Wait for one whole message; ChannelClosed at the end of the stream."""
        while True:
            message = self._take()
            if message is not None:
                return message
            self._fill()

    def receive_ready(self) -> list[Message]:
        """After a selector said readable: read once, return the messages that are complete now."""
        self._fill()
        found = []
        while (message := self._take()) is not None:
            found.append(message)
        return found

    def close(self) -> None:
        """Close this end."""
        self._socket.close()

    def _fill(self) -> None:
        with _closing():
            data = self._socket.recv(1 << 18)
            if not data:
                raise ConnectionResetError
        self._received += data

    def _take(self) -> Message | None:
        if len(self._received) < _LENGTH.size:
            return None
        (length,) = _LENGTH.unpack_from(self._received)
        if length > self.longest:
            raise ChannelGarbled(f"a message of {length} bytes was announced, more than {self.longest}")
        end = _LENGTH.size + length
        if len(self._received) < end:
            return None
        data = bytes(self._received[_LENGTH.size:end])
        del self._received[:end]
        try:
            return decode(data)
        except msgspec.DecodeError as error:
            raise ChannelGarbled(f"what came over the channel is no message: {error}") from error


@contextmanager
def _closing() -> Iterator[None]:
    """What sockets raise when nobody is there any more, as ours."""
    try:
        yield
    except (BrokenPipeError, ConnectionResetError) as error:
        raise ChannelClosed("the other side closed the channel") from error
    except TimeoutError as error:
        raise ChannelSilent("the other side is silent") from error
