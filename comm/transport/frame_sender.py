"""Frame sender: the sending half of a frame stream, which never waits for the other end."""

from __future__ import annotations

import fcntl
import select
import socket
import struct
import termios
import threading
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from typing import TypeAlias

from .seal import TAG, Seal

LENGTHS = struct.Struct("<IQI")
PART = 1 << 18
"""Bytes of a tensor that are sealed at once, and about as many as the kernel is given at once."""

_MOST_PARTS = 64
_LOOK_MS = 1000
_NUMBER = struct.Struct("i")

_Piece: TypeAlias = tuple[bytes | memoryview, bytes | None]
"""Bytes to be sent, and what their seal vouches for; None: they go in clear."""


class FrameSender:
    """See FrameStream.send. Any thread sends; one of its own what the connection does not take."""

    def __init__(self, sock: socket.socket, seal: Seal, clear: bool) -> None:
        """`clear`: tensors are not sealed."""
        self._socket = sock
        self._seal = seal.close
        self._clear = clear
        self._outbox: deque[_Piece] = deque()
        self._wire: deque[bytes | memoryview] = deque()
        self._lock = threading.Condition()
        self._thread: threading.Thread | None = None
        self._blocked = self._ended = False
        self.given = 0
        """How many bytes were to be sent so far."""

        self._sent = 0

    @property
    def arrived(self) -> int:
        """How many bytes the other end's kernel has; all, once the connection has ended."""
        with suppress(OSError, ValueError):
            waiting = fcntl.ioctl(self._socket, termios.TIOCOUTQ, _NUMBER.pack(0))
            return self._sent - int(_NUMBER.unpack(waiting)[0])
        return self.given

    @property
    def waiting(self) -> int:
        """How many pieces of messages and tensors the other end has not taken yet."""
        return len(self._outbox)

    def send(self, data: bytes, tensors: Sequence[memoryview]) -> None:
        """Send an encoded message, and the tensors behind it; nothing after the end."""
        size = sum(map(len, tensors))
        if size > PART:
            pieces = [piece for tensor in tensors for piece in self._pieces(tensor)]
        else:
            tensors = [tensor for tensor in tensors if len(tensor)]  # of no byte, none is read
            pieces = [(tensor, None if self._clear else b"") for tensor in tensors]
        sealed = 0 if self._clear else len(pieces)
        lengths = LENGTHS.pack(len(data) + TAG, size, sealed)
        whole = LENGTHS.size + len(data) + size + (1 + sealed) * TAG
        with self._lock:
            if self._ended:
                return
            self.given += whole
            if self._blocked or size > PART:
                self._outbox += ((lengths, None), (data, lengths), *pieces)
                if not self._blocked:
                    self._flush()
                return
            wire: list[bytes | memoryview] = [lengths, self._seal(data, lengths)]
            wire += tensors if self._clear else map(self._seal, tensors)
            self._blocked = not self._transmit(wire, whole)

    def close(self) -> None:
        """End the connection; `join` may wait afterwards."""
        with self._lock:
            self._end()
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)

    def join(self) -> None:
        """Wait until no thread sends."""
        if self._thread is not None:
            self._thread.join()

    def _pieces(self, tensor: memoryview) -> list[_Piece]:
        if self._clear:
            return [(tensor, None)]
        return [(tensor[at : at + PART], b"") for at in range(0, len(tensor), PART)]

    def _flush(self) -> None:
        """Send what the connection takes now; the rest goes by a thread."""
        self._blocked = False
        while not self._blocked and (self._wire or self._outbox):
            wire, size = self._filled_wire()
            self._blocked = not self._transmit(wire, size)

    def _transmit(self, wire: list[bytes | memoryview], size: int) -> bool:
        """Send `size` bytes of pieces; False where a thread has to send the rest."""
        try:
            sent = self._socket.sendmsg(wire, (), socket.MSG_DONTWAIT)
        except BlockingIOError:
            sent = 0
        except OSError:  # the receiving thread sees it too
            self._end()
            return True
        self._sent += sent
        if sent == size:
            return True
        self._wire.extend(_rest(wire, sent))
        self._wait_for_thread()
        return False

    def _filled_wire(self) -> tuple[list[bytes | memoryview], int]:
        """The pieces of the next call of the kernel, and their bytes."""
        wire, outbox = list(self._wire), self._outbox
        self._wire.clear()
        size = sum(map(len, wire))
        while outbox and len(wire) < _MOST_PARTS and size < PART:
            data, about = outbox.popleft()
            piece = data if about is None else self._seal(data, about)
            wire.append(piece)
            size += len(piece)
        return wire, size

    def _wait_for_thread(self) -> None:
        if self._thread is None:
            self._thread = threading.Thread(
                target=self._send_rest, name="rankmesh-sender", daemon=True
            )
            self._thread.start()
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
                if self._blocked:
                    self._flush()

    def _end(self) -> None:
        self._ended = True
        self._blocked = False
        self._outbox.clear()
        self._wire.clear()
        self._lock.notify_all()


def _rest(wire: Sequence[bytes | memoryview], sent: int) -> list[memoryview]:
    """The pieces without their first bytes, which are sent."""
    rest = []
    for piece in wire:
        if sent < len(piece):
            rest.append(memoryview(piece)[sent:])
        sent = max(0, sent - len(piece))
    return rest
