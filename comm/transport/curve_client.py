"""CURVE client: the end of any rank, rank 0 too, of the connections between hosts."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from enum import Enum
from types import MappingProxyType

import msgspec
import zmq

from .curve import FAILED, CurveEnd, Options, parts, public_key
from .key_file import Keys
from .messages import Failed, Message, decode

_HANDSHAKES = 10
"""Handshakes that may fail without a reason before a client gives up: a busy server ends some."""

_CONNECT_MS = 2000
_RETRY_MS = 100


class ConnectionState(Enum):
    """The state of a client's connection."""

    CONNECTING = "connecting"
    CONNECTED = "connected"
    REFUSED = "refused"
    LOST = "lost"

    @property
    def final(self) -> bool:
        """Whether the connection has ended and is not made again."""
        return self in (ConnectionState.REFUSED, ConnectionState.LOST)


class CurveClient(CurveEnd):
    """The end of a rank: it tries to connect until it is closed, and connects once."""

    def __init__(
        self, address: str, port: int, keys: Keys, beats: Options = MappingProxyType({})
    ) -> None:
        """`beats` are other `heartbeats` than the usual ones."""
        options: Options = {
            **beats,
            zmq.SocketOption.CURVE_SERVERKEY: public_key(keys.server),
            zmq.SocketOption.CURVE_PUBLICKEY: public_key(keys.client),
            zmq.SocketOption.CURVE_SECRETKEY: keys.client.encode(),
            zmq.SocketOption.CONNECT_TIMEOUT: _CONNECT_MS,
            zmq.SocketOption.RECONNECT_IVL: _RETRY_MS,
        }
        super().__init__(zmq.DEALER, options)
        self.address = address
        self.state = ConnectionState.CONNECTING
        """REFUSED: the other end has other keys, or is another program. LOST: its process, host
        or network is gone.
        """
        self._failures = 0
        self._failing = False
        self._socket.connect(f"tcp://{address}:{port}")

    def receive(self) -> list[Message]:
        """Wait for messages, `wake`, or a change of `state`.

        Messages that came before a loss are returned with it.
        """
        self._wait(None)
        for event, _ in self._events():
            self._note(event)
        return list(self._messages())

    def send(self, message: Message) -> None:
        """Send a message, at the latest when the connection is there."""
        self._socket.send_multipart(parts(message))

    def close(self) -> None:
        """See CurveEnd.close; messages that no peer has taken are dropped."""
        if self.state is not ConnectionState.CONNECTED:
            self._socket.set(zmq.LINGER, 0)
        super().close()

    def _note(self, event: int) -> None:
        if self.state is ConnectionState.CONNECTED and event == zmq.Event.DISCONNECTED:
            self.state = ConnectionState.LOST
        elif self.state is ConnectionState.CONNECTING:
            self._note_handshake(event)

    def _note_handshake(self, event: int) -> None:
        """Note the end of a handshake.

        One that fails without a reason is tried again. The library gives up after bytes of another
        program.
        """
        if event == zmq.Event.HANDSHAKE_SUCCEEDED:
            self.state = ConnectionState.CONNECTED
        elif event == FAILED:
            self._failures = self._failures + 1
            self._failing = True
        elif event == zmq.Event.DISCONNECTED and self._failing:
            self._failing = False
        else:
            self.state = ConnectionState.REFUSED
        if self._failures >= _HANDSHAKES:
            self.state = ConnectionState.REFUSED

    def _messages(self) -> Iterator[Message]:
        with suppress(zmq.Again):
            while True:
                data = b"".join(self._socket.recv_multipart(zmq.DONTWAIT))
                try:
                    yield decode(data)
                except msgspec.DecodeError as error:
                    yield Failed(
                        "RankFailed",
                        f"rank 0 sent what is no message ({error}): install the same version of "
                        "rankmesh on all hosts.",
                        0,
                    )
