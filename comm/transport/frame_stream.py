"""Frame stream: sealed messages with tensors behind them, over one TCP connection.

A frame is the length of its message and of its tensors, how many pieces of these are sealed, the
message, and the tensors' bytes. The message is always sealed. Tensors are sealed as well, except on
networks that are declared trusted.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Generic, TypeVar

import msgspec

from .frame_sender import LENGTHS, PART, FrameSender
from .seal import TAG, Seal, SealBroken

SentT = TypeVar("SentT")
ReceivedT = TypeVar("ReceivedT")

LONGEST = 1 << 26
"""Bytes of one message."""

_ROUND_TRIP = struct.Struct("<148xI")
"""struct tcp_info of linux/tcp.h, up to tcpi_min_rtt, in microseconds."""

_UNKNOWN = 0xFFFFFFFF


class StreamEnded(ConnectionError):
    """The connection is of no more use; the text says why."""


class FrameStream(Generic[SentT, ReceivedT]):
    """One end. Any thread sends, and never waits for the other end. One at a time receives."""

    def __init__(
        self,
        sock: socket.socket,
        seals: tuple[Seal, Seal],
        clear: bool,
        encode: Callable[[SentT], bytes],
        decode: Callable[[bytes], ReceivedT],
    ) -> None:
        """`seals` are those of what is sent and received. `clear`: tensors are not sealed.

        `decode` raises msgspec.DecodeError, and nothing else, for other bytes.
        """
        self._socket = sock
        sealed, opened = seals
        self._sender = FrameSender(sock, sealed, clear)
        self._opened = opened
        self._clear = clear
        self._encode = encode
        self._decode = decode
        self._buffer = memoryview(bytearray(PART + TAG))
        self._start = self._end = 0
        self._wait: Callable[[], None] = lambda: None
        self.received = 0
        """How many bytes have come so far."""

    def fileno(self) -> int:
        """The descriptor of the connection."""
        return self._socket.fileno()

    def wait_by(self, wait: Callable[[], None]) -> None:
        """Have `wait` called before bytes are received: it returns when some have come."""
        self._wait = wait

    @property
    def waiting(self) -> int:
        """How many pieces of messages and tensors the other end has not taken yet."""
        return self._sender.waiting

    @property
    def given(self) -> int:
        """How many bytes were to be sent so far."""
        return self._sender.given

    @property
    def arrived(self) -> int:
        """How many of them have arrived; all, once the connection has ended."""
        return self._sender.arrived

    @property
    def round_trip(self) -> float:
        """Seconds to the other end and back at least, as the kernel has measured; 0.0: unknown."""
        try:
            info = self._socket.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _ROUND_TRIP.size)
        except OSError:  # a local socket, or one that has ended
            return 0.0
        found = _ROUND_TRIP.unpack(info)[0] if len(info) == _ROUND_TRIP.size else _UNKNOWN
        return 0.0 if found == _UNKNOWN else found / 1e6

    def send(self, message: SentT, tensors: Sequence[memoryview] = ()) -> None:
        """Send a message and tensors' bytes, which must stay until they are sent.

        Another thread sends the part that the connection does not take at once. After the end of
        the connection nothing is sent.
        """
        self._sender.send(self._encode(message), tensors)

    def fetch(self) -> None:
        """Take what has come into the buffer, without waiting. Raises StreamEnded."""
        self._make_room(len(self._buffer))
        if self._end < len(self._buffer):
            with suppress(BlockingIOError):
                self._end += self._received(self._buffer[self._end :], socket.MSG_DONTWAIT)

    @property
    def begun(self) -> bool:
        """Whether bytes of the next message are in the buffer."""
        return self._end > self._start

    @property
    def whole(self) -> bool:
        """Whether the next message is in the buffer with its tensors: to take it needs no wait."""
        have = self._end - self._start
        return have >= LENGTHS.size and have >= self._announced()

    @property
    def large(self) -> bool:
        """Whether the next message is larger than the buffer: taking it may need a wait."""
        have = self._end - self._start
        return have >= LENGTHS.size and self._announced() > len(self._buffer)

    def receive(self) -> tuple[ReceivedT, int]:
        """Wait for a message; also how many bytes of tensors follow, which `read_into` takes.

        Raises StreamEnded.
        """
        lengths = self._take(LENGTHS.size)
        size, tensors, _ = LENGTHS.unpack(lengths)
        if not TAG <= size <= LONGEST:
            raise StreamEnded(f"a message of {size} bytes was announced, more than {LONGEST}")
        try:
            return self._decode(self._opened.open(self._take(size), lengths)), tensors
        except (SealBroken, msgspec.DecodeError) as error:
            raise StreamEnded(f"what came is no message of this connection: {error}") from error

    def read_into(self, room: memoryview) -> None:
        """Read as many bytes of the tensors behind the last message as `room` has.

        `room` is as long as one tensor was when it was sent. Raises StreamEnded.
        """
        if self._clear:
            self._read_clear(room)
            return
        for at in range(0, len(room), PART):
            part = room[at : at + PART]
            try:
                self._opened.open_into(self._taken(len(part) + TAG), part)
            except SealBroken as error:
                raise StreamEnded(f"a tensor's bytes are not what was sent: {error}") from error

    def skip(self, size: int) -> None:
        """Read a tensor of `size` bytes behind the last message, and forget it."""
        room = memoryview(bytearray(min(size, PART)))
        for at in range(0, size, PART):
            self.read_into(room[: size - at])

    def close(self) -> None:
        """End the connection; `receive` raises StreamEnded then, in whatever thread it is."""
        self._sender.close()

    def free(self) -> None:
        """Free the descriptor, once no thread receives."""
        self.close()
        self._sender.join()
        self._socket.close()

    def _announced(self) -> int:
        """Bytes of the next message on the way, with all around it."""
        size, tensors, sealed = LENGTHS.unpack_from(self._buffer, self._start)
        return int(LENGTHS.size + size + tensors + sealed * TAG)

    def _read_clear(self, room: memoryview) -> None:
        at = min(len(room), self._end - self._start)
        room[:at] = self._buffer[self._start : self._start + at]
        self._start += at
        while at < len(room):
            at += self._awaited(room[at:])

    def _take(self, size: int) -> bytes:
        """The next bytes; memory for more than the buffer is taken as they come."""
        if size <= len(self._buffer):
            return bytes(self._taken(size))
        taken = bytearray()
        while len(taken) < size:
            taken += self._take(min(PART // 2, size - len(taken)))
        return bytes(taken)

    def _taken(self, size: int) -> memoryview:
        """The next bytes in the buffer, which holds as many, until more are received."""
        self._make_room(size)
        while self._end - self._start < size:
            self._end += self._awaited(self._buffer[self._end :])
        self._start += size
        return self._buffer[self._start - size : self._start]

    def _make_room(self, size: int) -> None:
        """Have room for `size` bytes from the first one that was not taken on."""
        if self._start + size > len(self._buffer):
            left = self._end - self._start
            self._buffer[:left] = bytes(self._buffer[self._start : self._end])
            self._start, self._end = 0, left

    def _awaited(self, room: memoryview) -> int:
        self._wait()
        return self._received(room)

    def _received(self, room: memoryview, flags: int = 0) -> int:
        try:
            got = self._socket.recv_into(room, 0, flags)
        except BlockingIOError:
            raise
        except OSError as error:
            raise StreamEnded(str(error)) from error
        if not got:
            raise StreamEnded("the other end has closed the connection")
        self.received += got
        return got
