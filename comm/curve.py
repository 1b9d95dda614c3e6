"""Connections between hosts, over TCP, encrypted and authenticated by CURVE: what both ends have, and their keys.

Both ends send heartbeats from threads that Python does not hold up: a busy process counts as alive, and one that is
gone, or stopped, or whose host is silent, as lost within four seconds. A socket belongs to one thread, `wake` to all.
"""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import suppress

import zmq
from zmq.utils.monitor import recv_monitor_message

from .errors import UsageError
from .key_file import Keys
from .messages import Message, encode

LONGEST = 1 << 26
"""Bytes of one rank's message."""

_PART = 1 << 14
"""Bytes of one part of a message: ZeroMQ takes memory for a whole part as soon as anybody, with keys or without,
announces it. What is around it, encrypted, is less than 64 bytes."""

_BEAT_MS, _ANSWER_MS = 1000, 3000
"""A heartbeat each second, and the time to answer it."""

_HANDSHAKE_MS = 3000
_FLUSH_MS = 1000
_RINGS = 4096
REFUSED = (zmq.Event.HANDSHAKE_FAILED_AUTH, zmq.Event.HANDSHAKE_FAILED_PROTOCOL)
"""Handshakes that fail because the other end has other keys, or other ways."""

FAILED = zmq.Event.HANDSHAKE_FAILED_NO_DETAIL
"""A handshake that fails without a word, as with an end that is gone, too slow, or has another server key."""

_EVENTS = (zmq.Event.ACCEPTED | zmq.Event.HANDSHAKE_SUCCEEDED | zmq.Event.DISCONNECTED | FAILED | REFUSED[0]
           | REFUSED[1])
_MONITOR = "inproc://events"


class CurveEnd:
    """What both kinds of sockets have: a context of their own, a monitor, and a way to be woken."""

    def __init__(self, kind: int) -> None:
        self._context = zmq.Context()
        self._socket = self._context.socket(kind)
        self._socket.set(zmq.HEARTBEAT_IVL, _BEAT_MS)
        self._socket.set(zmq.HEARTBEAT_TIMEOUT, _ANSWER_MS)
        self._socket.set(zmq.LINGER, _FLUSH_MS)
        self._socket.set(zmq.HANDSHAKE_IVL, _HANDSHAKE_MS)
        self._socket.set(zmq.MAXMSGSIZE, _PART + 64)
        self._monitor = self._context.socket(zmq.PAIR)
        self._monitor.set(zmq.RCVHWM, 0)  # with a limit, the library's thread would wait for ours when there is a flood
        self._socket.monitor(_MONITOR, _EVENTS)
        self._monitor.connect(_MONITOR)
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

    def _events(self) -> Iterator[tuple[int, int]]:
        """What has happened to connections, and the descriptor of which, or an error's number."""
        while self._monitor.poll(0):
            event = recv_monitor_message(self._monitor)
            yield event["event"], event["value"]


def parts(message: Message) -> list[bytes]:
    """An encoded message in parts that either end takes."""
    data = encode(message)
    return [data[start:start + _PART] for start in range(0, len(data), _PART)]


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
