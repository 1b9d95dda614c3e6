"""Tensor socket: the options of a TCP connection that carries orders and tensors."""

from __future__ import annotations

import socket


def prepare(sock: socket.socket, silence: float) -> None:
    """Send small messages at once, and end after `silence` seconds without an acknowledgement."""
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, round(silence * 1000))
