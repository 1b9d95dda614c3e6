"""CURVE connections between hosts: encrypted, authenticated TCP; the common part of both ends.

Both ends send heartbeats from threads that Python does not hold up. A busy process counts as alive.
One that is gone or stopped, or whose host is silent, counts as lost within four seconds. A socket
belongs to one thread; `wake` may be called from any.
"""

from __future__ import annotations

import socket
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import TypeAlias

import zmq
from zmq.utils.monitor import recv_monitor_message

from ..errors import UsageError
from .key_file import Keys
from .messages import Message, encode

LONGEST = 1 << 26
"""Bytes of one rank's message."""

_PART = 1 << 14
"""Bytes of one part of a message.

ZeroMQ takes memory for a whole part as soon as it is announced, with keys or without. Framing and
encryption add less than 64 bytes.
"""

Options: TypeAlias = Mapping[zmq.SocketOption, int | bytes]
_OPTIONS: Options = {
    zmq.SocketOption.LINGER: 1000,
    zmq.SocketOption.HANDSHAKE_IVL: 3000,
    zmq.SocketOption.MAXMSGSIZE: _PART + 64,
}
"""Options of either end: its times in milliseconds, its sizes in bytes."""

_SILENCE = 4.0


def heartbeats(silence: float = _SILENCE) -> Options:
    """Options of an end that takes the other one for lost within `silence` seconds."""
    return {
        zmq.SocketOption.HEARTBEAT_IVL: round(silence * 125),
        zmq.SocketOption.HEARTBEAT_TIMEOUT: round(silence * 750),
    }


_RINGS = 4096
REFUSED = (zmq.Event.HANDSHAKE_FAILED_AUTH, zmq.Event.HANDSHAKE_FAILED_PROTOCOL)
"""Handshakes that fail because the other end has other keys, or is another program."""

FAILED = zmq.Event.HANDSHAKE_FAILED_NO_DETAIL
"""A handshake that fails without a reason.

The other end is gone, too slow, or has another server key.
"""

_EVENTS = (
    zmq.Event.ACCEPTED
    | zmq.Event.HANDSHAKE_SUCCEEDED
    | zmq.Event.DISCONNECTED
    | FAILED
    | REFUSED[0]
    | REFUSED[1]
)
_MONITOR = "inproc://events"


class CurveEnd:
    """A socket with a context of its own, a monitor of its connections, and a way to be woken."""

    def __init__(self, kind: int, options: Options) -> None:
        self._context = zmq.Context()
        self._socket = self._context.socket(kind)
        for option, value in {**_OPTIONS, **heartbeats(), **options}.items():
            self._socket.set(option, value)
        self._monitor = self._context.socket(zmq.PAIR)
        # With a limit, a flood of events would make the library's thread wait for ours.
        self._monitor.set(zmq.RCVHWM, 0)
        self._socket.monitor(_MONITOR, _EVENTS)
        self._monitor.connect(_MONITOR)
        self._bell, self._ringer = socket.socketpair()
        self._bell.setblocking(False)
        self._ringer.setblocking(False)
        self._poller = zmq.Poller()
        for end in (self._socket, self._monitor, self._bell):
            self._poller.register(end, zmq.POLLIN)

    def wake(self) -> None:
        """Have `receive` return, in whatever thread it is."""
        with suppress(OSError):  # the bell rings already, or the other thread has ended
            self._ringer.send(b"!")

    def close(self) -> None:
        """Close the socket; messages that were sent may leave the process for one more second."""
        self._socket.disable_monitor()
        self._monitor.close(0)
        self._socket.close()
        self._context.term()
        self._bell.close()
        self._ringer.close()

    def _wait(self, seconds: float | None) -> list[object]:
        ready: list[object] = [
            end for end, _ in self._poller.poll(None if seconds is None else round(seconds * 1000))
        ]
        with suppress(BlockingIOError):
            self._bell.recv(_RINGS)
        return ready

    def _events(self) -> Iterator[tuple[int, int]]:
        """Events of connections, each with a descriptor or an error's number."""
        while self._monitor.poll(0):
            event = recv_monitor_message(self._monitor)
            yield event["event"], event["value"]


def parts(message: Message) -> list[bytes]:
    """Encode a message, in parts that either end takes."""
    data = encode(message)
    return [data[start : start + _PART] for start in range(0, len(data), _PART)]


def make_keys() -> Keys:
    """Make new keys."""
    return Keys(*(zmq.curve_keypair()[1].decode() for _ in range(2)))


def public_key(secret: str) -> bytes:
    """The public half of a secret key; UsageError where the text is not a key."""
    try:
        return zmq.curve_public(secret.encode())
    except zmq.ZMQError as error:
        raise UsageError(
            "the key file holds what is no key: make a new one with `rankmesh key make FILE`, and "
            "copy it to every host."
        ) from error
