"""Rank 0's end of the connections between hosts."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import suppress
from typing import NamedTuple

import msgspec
import zmq
from zmq.utils import z85

from .connections import Connections
from .curve import FAILED, LONGEST, REFUSED, CurveEnd, parts, public_key
from .key_file import Keys
from .messages import Message, decode

_LOOK = 0.2
"""Seconds between looks at the connections."""

_ZAP, _DOMAIN = "inproc://zeromq.zap.01", b"rankmesh"
_BACKLOG = 1024


class Peer(NamedTuple):
    """A client, as its server knows it: the library's name for it, and its connection's descriptor."""

    name: bytes
    fd: int


class Server(CurveEnd):
    """Rank 0's end: it listens at one address, and takes those who have the client's key."""

    def __init__(self, address: str, port: int, keys: Keys, ranks: int) -> None:
        """For a job of so many ranks. Raises OSError (errno: EADDRINUSE, ...) where the address cannot be had."""
        super().__init__(zmq.ROUTER)
        self.refused = 0
        """How many connections did not show that they have the keys."""
        self._client = z85.decode(public_key(keys.client))
        self._zap = self._context.socket(zmq.REP)
        self._zap.set(zmq.LINGER, 0)
        self._zap.bind(_ZAP)
        self._poller.register(self._zap, zmq.POLLIN)
        self._socket.set(zmq.CURVE_SERVER, 1)
        self._socket.set(zmq.CURVE_SECRETKEY, keys.server.encode())
        self._socket.set(zmq.ZAP_DOMAIN, _DOMAIN)
        self._socket.set(zmq.ROUTER_MANDATORY, 1)
        self._socket.set(zmq.BACKLOG, _BACKLOG)
        self._connections = Connections((address, port), ranks, LONGEST + LONGEST // 64)
        self._next_look = 0.0
        try:
            self._socket.bind(f"tcp://{address}:{port}")
        except zmq.ZMQError as error:
            self.close()
            raise OSError(error.errno, error.strerror) from error

    def receive(self, seconds: float) -> tuple[list[tuple[Peer, Message | None]], bool]:
        """Wait for messages (who sent it, what; None: no message of ours), and whether somebody may be lost.

        Returns early, with nothing, to have a look at the connections.
        """
        ready = self._wait(min(seconds, _LOOK))
        if self._zap in ready:
            self._admit()
        events = [self._note(event, fd) for event, fd in self._events()]
        messages = list(self._messages())
        if events or time.monotonic() >= self._next_look:
            self._connections.look()
            self._next_look = time.monotonic() + _LOOK
        return messages, zmq.Event.DISCONNECTED in events

    def trust(self, peer: Peer) -> None:
        """A peer is a rank of the job: its messages may be long, and its connection lasts."""
        self._connections.trust(peer.fd)

    def send(self, peer: Peer, message: Message) -> bool:
        """Send a message without waiting; whether the peer is still there."""
        try:
            self._socket.send_multipart([peer.name, *parts(message)], zmq.DONTWAIT)
        except zmq.Again:
            return True  # so much waits for it already that one more says nothing
        except zmq.ZMQError:
            return False
        return True

    def close(self) -> None:
        """See CurveEnd.close."""
        self._zap.close()
        super().close()
        self._connections.close()

    def _note(self, event: int, fd: int) -> int:
        """Note what has happened to a connection."""
        if event == zmq.Event.ACCEPTED:
            self._connections.accepted(fd)
        elif event == zmq.Event.DISCONNECTED:
            self._connections.ended(fd)
        self.refused += event == FAILED or event in REFUSED
        return event

    def _messages(self) -> Iterator[tuple[Peer, Message | None]]:
        with suppress(zmq.Again):
            while True:
                name, *frames = self._socket.recv_multipart(zmq.DONTWAIT, copy=False)
                peer = Peer(name.bytes, frames[0].get(zmq.SRCFD) if frames else -1)
                self._connections.spoke(peer.fd)
                yield peer, self._read(peer, [part.buffer for part in frames])

    def _read(self, peer: Peer, parts: list[memoryview]) -> Message | None:
        if sum(map(len, parts)) > LONGEST:
            self._connections.end(peer.fd)
            return None
        try:
            return decode(b"".join(parts))
        except msgspec.DecodeError:
            return None

    def _admit(self) -> None:
        """Answer the library's question who may connect (ZAP, RFC 27)."""
        version, request, *_, key = self._zap.recv_multipart()
        known = key == self._client
        self._zap.send_multipart([version, request, b"200" if known else b"400", b"", b"", b""])
