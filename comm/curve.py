"""Messages between hosts, over TCP, encrypted and authenticated by CURVE: the only file that knows ZeroMQ.

Both ends send heartbeats from threads that Python does not hold up: a busy process counts as alive, and one that is
gone, or stopped, or whose host is silent, as lost within four seconds. A socket belongs to one thread, `wake` to all.
"""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import suppress
from enum import Enum

import msgspec
import zmq
from zmq.utils import z85
from zmq.utils.monitor import recv_monitor_message

from .errors import UsageError
from .key_file import Keys
from .messages import Failed, Message, decode, encode

LONGEST = 1 << 26
"""Bytes of one rank's message."""

_BEAT_MS, _ANSWER_MS = 1000, 3000
"""A heartbeat each second, and the time to answer it."""

_LONGEST_ANSWER = 1 << 30
_ZAP, _DOMAIN = "inproc://zeromq.zap.01", b"rankmesh"
_FLUSH_MS = 1000
_CONNECT_MS = 2000
_RETRY_MS = 100
_RINGS = 4096
_REFUSED = (
    zmq.Event.HANDSHAKE_FAILED_AUTH, zmq.Event.HANDSHAKE_FAILED_NO_DETAIL, zmq.Event.HANDSHAKE_FAILED_PROTOCOL)


class State(Enum):
    """How a client's connection is; the last two are final."""

    CONNECTING = "connecting"
    CONNECTED = "connected"
    REFUSED = "refused"
    LOST = "lost"


class _Ends:
    """What both kinds of sockets have: a context of their own, a monitor, and a way to be woken."""

    def __init__(self, kind: int) -> None:
        self._context = zmq.Context()
        self._socket = self._context.socket(kind)
        self._socket.set(zmq.HEARTBEAT_IVL, _BEAT_MS)
        self._socket.set(zmq.HEARTBEAT_TIMEOUT, _ANSWER_MS)
        self._socket.set(zmq.LINGER, _FLUSH_MS)
        self._monitor = self._socket.get_monitor_socket()
        self._bell, self._ringer = socket.socketpair()
        self._bell.setblocking(False)
        self._ringer.setblocking(False)
        self._poller = zmq.Poller()
        for end in (self._socket, self._monitor, self._bell):
            self._poller.register(end, zmq.POLLIN)

    def wake(self) -> None:
        """Have `receive` return, in whichever thread it is."""
        with suppress(OSError):  # enough rings are heard already, or nobody listens any more
            self._ringer.send(b"!")

    def close(self) -> None:
        """Close the socket, after all that was sent has left this process, for at most a second."""
        self._socket.disable_monitor()
        self._monitor.close(0)
        self._socket.close()
        self._context.term()
        self._bell.close()
        self._ringer.close()

    def _wait(self, seconds: float | None) -> list[object]:
        ready: list[object] = [end for end, _ in self._poller.poll(None if seconds is None else round(seconds * 1000))]
        with suppress(BlockingIOError):
            self._bell.recv(_RINGS)
        return ready

    def _events(self) -> Iterator[int]:
        while self._monitor.poll(0):
            yield recv_monitor_message(self._monitor)["event"]


class Server(_Ends):
    """Rank 0's end: it listens at one address, and takes those who have the client's key."""

    def __init__(self, address: str, port: int, keys: Keys) -> None:
        """Raises OSError (errno: EADDRINUSE, EADDRNOTAVAIL, ...) where the address cannot be had."""
        super().__init__(zmq.ROUTER)
        self.refused = 0
        """How many tried with other keys."""
        self._client = z85.decode(public_key(keys.client))
        self._zap = self._context.socket(zmq.REP)
        self._zap.set(zmq.LINGER, 0)
        self._zap.bind(_ZAP)
        self._poller.register(self._zap, zmq.POLLIN)
        self._socket.set(zmq.CURVE_SERVER, 1)
        self._socket.set(zmq.CURVE_SECRETKEY, keys.server.encode())
        self._socket.set(zmq.ZAP_DOMAIN, _DOMAIN)
        self._socket.set(zmq.ROUTER_MANDATORY, 1)
        self._socket.set(zmq.MAXMSGSIZE, LONGEST)
        try:
            self._socket.bind(f"tcp://{address}:{port}")
        except zmq.ZMQError as error:
            self.close()
            raise OSError(error.errno, error.strerror) from error

    def receive(self, seconds: float | None) -> tuple[list[tuple[bytes, Message | None]], bool]:
        """Wait for messages (who sent it, what; None: no message of ours), and whether somebody may be lost."""
        ready = self._wait(seconds)
        if self._zap in ready:
            self._admit()
        events = list(self._events())
        self.refused += len([event for event in events if event in _REFUSED])
        return list(self._messages()), zmq.Event.DISCONNECTED in events

    def send(self, peer: bytes, message: Message) -> bool:
        """Send a message without waiting; whether the peer is still there."""
        try:
            self._socket.send_multipart([peer, encode(message)], zmq.DONTWAIT)
        except zmq.Again:
            return True  # so much waits for it already that one more says nothing
        except zmq.ZMQError:
            return False
        return True

    def close(self) -> None:
        """See _Ends.close."""
        self._zap.close()
        super().close()

    def _messages(self) -> Iterator[tuple[bytes, Message | None]]:
        with suppress(zmq.Again):
            while True:
                peer, *parts = self._socket.recv_multipart(zmq.DONTWAIT)
                try:
                    yield peer, decode(b"".join(parts))
                except msgspec.DecodeError:
                    yield peer, None

    def _admit(self) -> None:
        """Answer the library's question who may connect (ZAP, RFC 27)."""
        version, request, *_, key = self._zap.recv_multipart()
        known = key == self._client
        self._zap.send_multipart([version, request, b"200" if known else b"400", b"", b"", b""])


class Client(_Ends):
    """Any rank's end: it tries to connect until it is closed, and connects once."""

    def __init__(self, address: str, port: int, keys: Keys) -> None:
        super().__init__(zmq.DEALER)
        self.state = State.CONNECTING
        """REFUSED: the other end has other keys, or is none of ours. LOST: its process, host or network is gone."""
        self._socket.set(zmq.CURVE_SERVERKEY, public_key(keys.server))
        self._socket.set(zmq.CURVE_PUBLICKEY, public_key(keys.client))
        self._socket.set(zmq.CURVE_SECRETKEY, keys.client.encode())
        self._socket.set(zmq.CONNECT_TIMEOUT, _CONNECT_MS)
        self._socket.set(zmq.RECONNECT_IVL, _RETRY_MS)
        self._socket.set(zmq.MAXMSGSIZE, _LONGEST_ANSWER)
        self._socket.connect(f"tcp://{address}:{port}")

    def receive(self) -> list[Message]:
        """Wait for messages, `wake`, or a change of `state`; what came before a loss is returned with it."""
        self._wait(None)
        for event in self._events():
            self._note(event)
        return list(self._messages())

    def send(self, message: Message) -> None:
        """Send a message, at the latest when the connection is there."""
        self._socket.send(encode(message))

    def close(self) -> None:
        """See _Ends.close; what nobody was there for is dropped."""
        if self.state is not State.CONNECTED:
            self._socket.set(zmq.LINGER, 0)
        super().close()

    def _note(self, event: int) -> None:
        if self.state is State.CONNECTING and event in _REFUSED:
            self.state = State.REFUSED
        elif self.state is State.CONNECTING and event == zmq.Event.HANDSHAKE_SUCCEEDED:
            self.state = State.CONNECTED
        elif self.state is State.CONNECTED and event == zmq.Event.DISCONNECTED:
            self.state = State.LOST

    def _messages(self) -> Iterator[Message]:
        with suppress(zmq.Again):
            while True:
                parts = self._socket.recv_multipart(zmq.DONTWAIT)
                try:
                    yield decode(b"".join(parts))
                except msgspec.DecodeError as error:
                    yield Failed("RankFailed", f"rank 0 sent what is no message ({error}): install the same version of "
                                               f"rankmesh on all hosts.", 0)


def make_keys() -> Keys:
    """New keys."""
    return Keys(*(zmq.curve_keypair()[1].decode() for _ in range(2)))


def public_key(secret: str) -> bytes:
    """The public half of a secret key; UsageError where the text is no key."""
    try:
        return zmq.curve_public(secret.encode())
    except zmq.ZMQError as error:
        raise UsageError("the key file holds what is no key: make a new one with `rankmesh key make FILE`, and copy it "
                         "to every host.") from error
