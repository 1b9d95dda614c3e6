"""Tensor socket: a TCP connection that carries orders and tensors, opened by invitation."""

from __future__ import annotations

import socket

from .seal import Seal
from .stream_invitation import StreamInvitation

_CONNECT = 10.0
_KEEP_ALIVE = 60


def prepare(sock: socket.socket, silence: float) -> None:
    """Send small messages at once, and end after `silence` seconds without an acknowledgement."""
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, round(silence * 1000))


def prepare_watched(sock: socket.socket) -> None:
    """As `prepare`, where the other process is watched by other means: it may be busy for as long
    as it likes, and take nothing. Firewalls see that an idle connection lives.
    """
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, _KEEP_ALIVE)


def accept(invitation: StreamInvitation) -> socket.socket:
    """Open a connection. Raises OSError."""
    sock = socket.create_connection((invitation.host, invitation.port), _CONNECT)
    try:
        sock.sendall(invitation.token)
        sock.settimeout(None)
    except OSError:
        sock.close()
        raise
    return sock


def caller_seals(invitation: StreamInvitation) -> tuple[Seal, Seal]:
    """The seals of what the end that was invited sends and receives."""
    return Seal(invitation.caller_key), Seal(invitation.listener_key)
