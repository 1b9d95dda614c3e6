"""Any rank's end of the connections between hosts, rank 0's too."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from enum import Enum

import msgspec
import zmq

from .curve import FAILED, CurveEnd, parts, public_key
from .key_file import Keys
from .messages import Failed, Message, decode

_HANDSHAKES = 10
"""How many handshakes may fail without a word before a client gives up: a busy server ends some, too."""

_CONNECT_MS = 2000
_RETRY_MS = 100


class State(Enum):
    """How a client's connection is; the last two are final."""

    CONNECTING = "connecting"
    CONNECTED = "connected"
    REFUSED = "refused"
    LOST = "lost"


class Client(CurveEnd):
    """Any rank's end: it tries to connect until it is closed, and connects once."""

    def __init__(self, address: str, port: int, keys: Keys) -> None:
        super().__init__(zmq.DEALER)
        self.address = address
        self.state = State.CONNECTING
        """REFUSED: the other end has other keys, or is none of ours. LOST: its process, host or network is gone."""
        self._socket.set(zmq.CURVE_SERVERKEY, public_key(keys.server))
        self._socket.set(zmq.CURVE_PUBLICKEY, public_key(keys.client))
        self._socket.set(zmq.CURVE_SECRETKEY, keys.client.encode())
        self._socket.set(zmq.CONNECT_TIMEOUT, _CONNECT_MS)
        self._socket.set(zmq.RECONNECT_IVL, _RETRY_MS)
        self._failures, self._failing = 0, False
        self._socket.connect(f"tcp://{address}:{port}")

    def receive(self) -> list[Message]:
        """Wait for messages, `wake`, or a change of `state`; what came before a loss is returned with it."""
        self._wait(None)
        for event, _ in self._events():
            self._note(event)
        return list(self._messages())

    def send(self, message: Message) -> None:
        """Send a message, at the latest when the connection is there."""
        self._socket.send_multipart(parts(message))

    def close(self) -> None:
        """See CurveEnd.close; messages that no peer has taken are dropped."""
        if self.state is not State.CONNECTED:
            self._socket.set(zmq.LINGER, 0)
        super().close()

    def _note(self, event: int) -> None:
        if self.state is State.CONNECTED and event == zmq.Event.DISCONNECTED:
            self.state = State.LOST
        elif self.state is State.CONNECTING:
            self._note_handshake(event)

    def _note_handshake(self, event: int) -> None:
        """A handshake that fails without a word is tried again; after words of another program the library ends."""
        if event == zmq.Event.HANDSHAKE_SUCCEEDED:
            self.state = State.CONNECTED
        elif event == FAILED:
            self._failures, self._failing = self._failures + 1, True
        elif event == zmq.Event.DISCONNECTED and self._failing:
            self._failing = False
        else:
            self.state = State.REFUSED
        if self._failures >= _HANDSHAKES:
            self.state = State.REFUSED

    def _messages(self) -> Iterator[Message]:
        with suppress(zmq.Again):
            while True:
                data = b"".join(self._socket.recv_multipart(zmq.DONTWAIT))
                try:
                    yield decode(data)
                except msgspec.DecodeError as error:
                    yield Failed("RankFailed", f"rank 0 sent what is no message ({error}): install the same version of "
                                               f"rankmesh on all hosts.", 0)
