"""CURVE server: the end of rank 0 of the connections between hosts."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import suppress
from types import MappingProxyType
from typing import NamedTuple

import msgspec
import zmq
from zmq.utils import z85

from .connections import Connections
from .curve import FAILED, LONGEST, REFUSED, CurveEnd, Options, parts, public_key
from .key_file import Keys
from .messages import Message, decode

_LOOK = 0.2
"""Seconds between looks at the connections."""

_ZAP = "inproc://zeromq.zap.01"


class CurvePeer(NamedTuple):
    """A client: the library's name for it, and the descriptor of its connection."""

    name: bytes
    fd: int


class CurveServer(CurveEnd):
    """The end of rank 0: it listens at one address, and accepts clients with the client's key."""

    def __init__(
        self,
        address: str,
        port: int,
        keys: Keys,
        ranks: int,
        beats: Options = MappingProxyType({}),
    ) -> None:
        """Listen, for a job of `ranks` ranks; `beats` are other `heartbeats` than the usual ones.

        Raises OSError (errno: EADDRINUSE, ...) where the address cannot be had.
        """
        options: Options = {
            **beats,
            zmq.SocketOption.CURVE_SERVER: 1,
            zmq.SocketOption.CURVE_SECRETKEY: keys.server.encode(),
            zmq.SocketOption.ZAP_DOMAIN: b"rankmesh",
            zmq.SocketOption.ROUTER_MANDATORY: 1,
            zmq.SocketOption.BACKLOG: 1024,
        }
        super().__init__(zmq.ROUTER, options)
        self.refused = 0
        """The number of connections that did not show that they have the keys."""
        self._client = z85.decode(public_key(keys.client))
        self._zap = self._context.socket(zmq.REP)
        self._zap.set(zmq.LINGER, 0)
        self._zap.bind(_ZAP)
        self._poller.register(self._zap, zmq.POLLIN)
        self._connections = Connections((address, port), ranks, LONGEST + LONGEST // 64)
        self._next_look = 0.0
        try:
            self._socket.bind(f"tcp://{address}:{port}")
        except zmq.ZMQError as error:
            self.close()
            raise OSError(error.errno, error.strerror) from error

    def receive(self, seconds: float) -> tuple[list[tuple[CurvePeer, Message | None]], bool]:
        """Wait for messages; also returns whether a peer may be lost.

        Each comes with its peer; None stands for bytes that are not a message. Returns early, with
        nothing, to look at the connections.
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

    def trust(self, peer: CurvePeer) -> None:
        """Trust a peer as a rank of the job: its messages may be long, its connection lasts."""
        self._connections.trust(peer.fd)

    def address_of(self, peer: CurvePeer) -> str:
        """The address of a peer; "" where it is gone."""
        return self._connections.address_of(peer.fd)

    def send(self, peer: CurvePeer, message: Message) -> bool:
        """Send a message without waiting; whether the peer is still there."""
        try:
            self._socket.send_multipart([peer.name, *parts(message)], zmq.DONTWAIT)
        except zmq.Again:
            return True  # the queue is full: the peer gets nothing, but is there
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

    def _messages(self) -> Iterator[tuple[CurvePeer, Message | None]]:
        with suppress(zmq.Again):
            while True:
                name, *frames = self._socket.recv_multipart(zmq.DONTWAIT, copy=False)
                peer = CurvePeer(name.bytes, frames[0].get(zmq.SRCFD) if frames else -1)
                self._connections.spoke(peer.fd)
                yield peer, self._read(peer, [part.buffer for part in frames])

    def _read(self, peer: CurvePeer, parts: list[memoryview]) -> Message | None:
        if sum(map(len, parts)) > LONGEST:
            self._connections.end(peer.fd)
            return None
        try:
            return decode(b"".join(parts))
        except msgspec.DecodeError:
            return None

    def _admit(self) -> None:
        """Answer the library's question for admission of a client (ZAP, RFC 27)."""
        version, request, *_, key = self._zap.recv_multipart()
        known = key == self._client
        self._zap.send_multipart([version, request, b"200" if known else b"400", b"", b"", b""])
