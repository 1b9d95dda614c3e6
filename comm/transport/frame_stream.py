"""Frame stream: sealed messages with tensors behind them, over one TCP connection.

A frame is the length of its message and of its tensors, how many pieces of these are sealed, the
message, and the tensors' bytes. The message is always sealed. Tensors are sealed as well, except on
networks that are declared trusted.
"""

from __future__ import annotations

import select
import socket
import struct
import threading
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Generic, TypeAlias, TypeVar

import msgspec

from .seal import TAG, Seal, SealBroken

SentT = TypeVar("SentT")
ReceivedT = TypeVar("ReceivedT")

LONGEST = 1 << 26
"""Bytes of one message."""

_LENGTHS = struct.Struct("<IQI")
_PART = 1 << 18
_MOST_PARTS = 64
_LOOK_MS = 1000
_SENT, _RECEIVED = range(2)


class StreamEnded(ConnectionError):
    """The connection is of no more use; the text says why."""


_Piece: TypeAlias = tuple[bytes | memoryview, bytes | None]
"""Bytes to be sent, and what their seal vouches for; None: they go in clear."""


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
        self._seals = seals
        self._clear = clear
        self._encode = encode
        self._decode = decode
        self._outbox: deque[_Piece] = deque()
        self._wire: deque[memoryview] = deque()
        self._lock = threading.Condition()
        self._sender: threading.Thread | None = None
        self._blocked = self._ended = False
        self._buffer = memoryview(bytearray(_PART))
        self._start = self._end = 0
        self._wait: Callable[[], None] = lambda: None

    def fileno(self) -> int:
        """The descriptor of the connection."""
        return self._socket.fileno()

    def wait_by(self, wait: Callable[[], None]) -> None:
        """Have `wait` called before bytes are received: it returns when some have come."""
        self._wait = wait

    @property
    def waiting(self) -> int:
        """How many pieces of messages and tensors the other end has not taken yet."""
        return len(self._outbox)

    def send(self, message: SentT, tensors: Sequence[memoryview] = ()) -> None:
        """Send a message and tensors' bytes, which must stay until they are sent.

        Another thread sends the part that the connection does not take at once. After the end of
        the connection nothing is sent.
        """
        data = self._encode(message)
        pieces = [piece for tensor in tensors for piece in self._pieces(tensor)]
        sealed = 0 if self._clear else len(pieces)
        lengths = _LENGTHS.pack(len(data) + TAG, sum(map(len, tensors)), sealed)
        with self._lock:
            if self._ended:
                return
            self._outbox += ((lengths, None), (data, lengths), *pieces)
            if not self._blocked:
                self._flush()

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
        return have >= _LENGTHS.size and have >= self._announced()

    @property
    def large(self) -> bool:
        """Whether the next message is larger than the buffer: taking it may need a wait."""
        have = self._end - self._start
        return have >= _LENGTHS.size and self._announced() > len(self._buffer)

    def receive(self) -> tuple[ReceivedT, int]:
        """Wait for a message; also how many bytes of tensors follow, which `read_into` takes.

        Raises StreamEnded.
        """
        lengths = self._take(_LENGTHS.size)
        size, tensors, _ = _LENGTHS.unpack(lengths)
        if not TAG <= size <= LONGEST:
            raise StreamEnded(f"a message of {size} bytes was announced, more than {LONGEST}")
        try:
            return self._decode(self._seals[_RECEIVED].open(self._take(size), lengths)), tensors
        except (SealBroken, msgspec.DecodeError) as error:
            raise StreamEnded(f"what came is no message of this connection: {error}") from error

    def read_into(self, room: memoryview) -> None:
        """Read as many bytes of the tensors behind the last message as `room` has.

        `room` is as long as one tensor was when it was sent. Raises StreamEnded.
        """
        if self._clear:
            self._read_clear(room)
            return
        for at in range(0, len(room), _PART):
            part = room[at : at + _PART]
            try:
                part[:] = self._seals[_RECEIVED].open(self._take(len(part) + TAG))
            except SealBroken as error:
                raise StreamEnded(f"a tensor's bytes are not what was sent: {error}") from error

    def skip(self, size: int) -> None:
        """Read a tensor of `size` bytes behind the last message, and forget it."""
        room = memoryview(bytearray(min(size, _PART)))
        for at in range(0, size, _PART):
            self.read_into(room[: size - at])

    def close(self) -> None:
        """End the connection; `receive` raises StreamEnded then, in whatever thread it is."""
        with self._lock:
            self._end_sending()
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)

    def free(self) -> None:
        """Free the descriptor, once no thread receives."""
        self.close()
        if self._sender is not None:
            self._sender.join()
        self._socket.close()

    def _pieces(self, tensor: memoryview) -> list[_Piece]:
        if self._clear:
            return [(tensor, None)]
        return [(tensor[at : at + _PART], b"") for at in range(0, len(tensor), _PART)]

    def _flush(self) -> None:
        """Send what the connection takes now; the rest goes by the sender's thread."""
        while self._wire or self._outbox:
            size = self._fill_wire()
            try:
                sent = self._socket.sendmsg(self._wire, (), socket.MSG_DONTWAIT)
            except BlockingIOError:
                self._wait_for_sender()
                return
            except OSError:  # the receiving thread sees it too
                self._end_sending()
                return
            if sent == size:
                self._wire.clear()
            else:
                self._keep_rest(sent)
        self._blocked = False

    def _keep_rest(self, sent: int) -> None:
        while sent >= len(self._wire[0]):
            sent -= len(self._wire.popleft())
        self._wire[0] = self._wire[0][sent:]

    def _fill_wire(self) -> int:
        """Take pieces for the next call of the kernel; how many bytes it is given."""
        wire, outbox = self._wire, self._outbox
        size = sum(map(len, wire))
        while outbox and len(wire) < _MOST_PARTS and size < _PART:
            data, about = outbox.popleft()
            piece = memoryview(data if about is None else self._seals[_SENT].close(data, about))
            wire.append(piece)
            size += len(piece)
        return size

    def _wait_for_sender(self) -> None:
        self._blocked = True
        if self._sender is None:
            self._sender = threading.Thread(
                target=self._send_rest, name="rankmesh-sender", daemon=True
            )
            self._sender.start()
        self._lock.notify()

    def _send_rest(self) -> None:
        poll = select.poll()
        poll.register(self._socket, select.POLLOUT)
        while True:
            with self._lock:
                while not self._blocked and not self._ended:
                    self._lock.wait()
                if self._ended:
                    return
            poll.poll(_LOOK_MS)
            with self._lock:
                self._flush()

    def _end_sending(self) -> None:
        self._ended = True
        self._blocked = False
        self._outbox.clear()
        self._wire.clear()
        self._lock.notify_all()

    def _announced(self) -> int:
        """Bytes of the next message on the way, with all around it."""
        size, tensors, sealed = _LENGTHS.unpack_from(self._buffer, self._start)
        return int(_LENGTHS.size + size + tensors + sealed * TAG)

    def _read_clear(self, room: memoryview) -> None:
        at = min(len(room), self._end - self._start)
        room[:at] = self._buffer[self._start : self._start + at]
        self._start += at
        while at < len(room):
            at += self._awaited(room[at:])

    def _take(self, size: int) -> bytes:
        """The next bytes; memory for more than the buffer is taken as they come."""
        if size <= len(self._buffer):
            self._make_room(size)
            while self._end - self._start < size:
                self._end += self._awaited(self._buffer[self._end :])
            self._start += size
            return bytes(self._buffer[self._start - size : self._start])
        taken = bytearray()
        while len(taken) < size:
            taken += self._take(min(_PART // 2, size - len(taken)))
        return bytes(taken)

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
        return got
