"""Message stream: whole messages, and file descriptors, over one connected socket."""

from __future__ import annotations

import socket
import struct
from array import array
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Generic, TypeVar

import msgspec

SentT = TypeVar("SentT")
ReceivedT = TypeVar("ReceivedT")

_LENGTH = struct.Struct("<Q")
LONGEST = 1 << 30
"""Bytes that one message may have."""
_MOST_FDS = 8


class ChannelClosed(ConnectionError):
    """The other side is gone; its subclasses say that it is there, but of no more use."""


class ChannelGarbled(ChannelClosed):
    """The other side sent bytes that are not a message: no later byte can be read either."""


class ChannelSilent(ChannelClosed):
    """The other side took or sent nothing until the timeout of the socket."""


class MessageStream(Generic[SentT, ReceivedT]):
    """Messages over one stream socket, each behind its length.

    After any error the stream may have stopped inside a message: it is of no more use.
    """

    def __init__(
        self,
        sock: socket.socket,
        encode: Callable[[SentT], bytes],
        decode: Callable[[bytes], ReceivedT],
        longest: int = LONGEST,
    ) -> None:
        """A message from the other side may have `longest` bytes; that may change.

        `decode` raises msgspec.DecodeError, and nothing else, for other bytes.
        """
        self._socket = sock
        self._encode = encode
        self._decode = decode
        self.longest = longest
        self._received = bytearray()
        self._unsent = bytearray()
        self._unsent_fds: Sequence[int] = ()

    def fileno(self) -> int:
        """The descriptor, for selectors and for inheritance."""
        return self._socket.fileno()

    @property
    def unsent(self) -> int:
        """Bytes of posted messages that wait for `flush`."""
        return len(self._unsent)

    def send(self, message: SentT) -> None:
        """Send one whole message; ChannelClosed if the other side is gone."""
        data = self._encode(message)
        with _closing():
            self._socket.sendall(_LENGTH.pack(len(data)) + data)

    def post(self, message: SentT, fds: Sequence[int] = ()) -> None:
        """Take one message for `flush` to send.

        Duplicates of `fds` go with it, if nothing else waits to be sent.
        """
        data = self._encode(message)
        assert not (fds and self._unsent)  # they go with the first bytes
        self._unsent += _LENGTH.pack(len(data)) + data
        self._unsent_fds = fds or self._unsent_fds

    def flush(self) -> bool:
        """Send as much of the posted messages as the socket takes; whether that was all."""
        with _closing():
            while self._unsent:
                try:
                    del self._unsent[
                        : send(self._socket, self._unsent, self._unsent_fds, socket.MSG_DONTWAIT)
                    ]
                except BlockingIOError:
                    return False
                self._unsent_fds = ()
        return True

    def send_with_fd(self, message: SentT, fd: int) -> None:
        """Send one message with a duplicate of the descriptor `fd`."""
        data = self._encode(message)
        with _closing():
            send(self._socket, _LENGTH.pack(len(data)) + data, [fd])

    def receive_with_fds(self) -> tuple[ReceivedT, list[int]]:
        """Wait for one whole message and the descriptors that came with it."""
        with _closing():
            data, fds, _ = receive(self._socket, 1 << 16, _MOST_FDS)
            if not data:
                raise ConnectionResetError
        self._received += data
        return self._take() or self.receive(), fds

    def receive(self) -> ReceivedT:
        """Wait for one whole message; ChannelClosed at the end of the stream."""
        while (message := self._take()) is None:
            self._fill()
        return message

    def receive_ready(self) -> list[ReceivedT]:
        """Read once, after a selector said readable; return the messages complete now."""
        self._fill()
        return list(iter(self._take, None))

    def close(self) -> None:
        """Close this end."""
        self._socket.close()

    def _fill(self) -> None:
        with _closing():
            data = self._socket.recv(1 << 18)
            if not data:
                raise ConnectionResetError
        self._received += data

    def _take(self) -> ReceivedT | None:
        if len(self._received) < _LENGTH.size:
            return None
        (length,) = _LENGTH.unpack_from(self._received)
        if length > self.longest:
            raise ChannelGarbled(
                f"a message of {length} bytes was announced, more than {self.longest}"
            )
        end = _LENGTH.size + length
        if len(self._received) < end:
            return None
        data = bytes(self._received[_LENGTH.size : end])
        del self._received[:end]
        try:
            return self._decode(data)
        except msgspec.DecodeError as error:
            raise ChannelGarbled(f"what came over the channel is no message: {error}") from error


@contextmanager
def _closing() -> Iterator[None]:
    """Raise ChannelClosed or ChannelSilent for the errors of a socket."""
    try:
        yield
    except (BrokenPipeError, ConnectionResetError) as error:
        raise ChannelClosed("the other side closed the channel") from error
    except TimeoutError as error:
        raise ChannelSilent("the other side is silent") from error


def send(sock: socket.socket, data: bytes | bytearray, fds: Sequence[int], flags: int = 0) -> int:
    """Send bytes, and duplicates of `fds` with the first of them; return the number of bytes sent.

    socket.send_fds ignores its flags up to Python 3.11.
    """
    return sock.sendmsg(
        [data], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array("i", fds))] if fds else (), flags
    )


def receive(
    sock: socket.socket, longest: int, most: int, flags: int = 0
) -> tuple[bytes, list[int], int]:
    """Receive up to `longest` bytes and `most` descriptors; also returns the flags of recvmsg(2).

    Child programs do not inherit the descriptors. Those of socket.recv_fds they would, and up to
    Python 3.11 it ignores its flags.
    """
    fds = array("i")
    room = socket.CMSG_LEN(most * fds.itemsize)
    data, ancillary, message_flags, _ = sock.recvmsg(longest, room, flags | socket.MSG_CMSG_CLOEXEC)
    for level, kind, content in ancillary:
        if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
            fds.frombytes(content[: len(content) - len(content) % fds.itemsize])
    return data, list(fds), message_flags
