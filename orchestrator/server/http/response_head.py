"""Response heads: the status line and the headers of a response."""

from __future__ import annotations

from collections.abc import Sequence
from email.utils import formatdate
from http import HTTPStatus

from .exchange import HttpResponse, Part

CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
_JOINED = 1 << 14
"""Bytes of a response that are copied sooner than sent in parts."""

_END = b"\r\n"
_LAST = b"connection: close\r\n\r\n"
_LINES = {one.value: f"HTTP/1.1 {one.value} {one.phrase}\r\n".encode() for one in HTTPStatus}


class Clock:
    """The date as responses tell it; it is set once a second."""

    def __init__(self) -> None:
        self.header = b""
        self.set()

    def set(self) -> None:
        """Take the current time."""
        self.header = f"date: {formatdate(usegmt=True)}\r\n".encode()


def sent(response: HttpResponse, clock: Clock, keep_alive: bool) -> Sequence[Part]:
    """The bytes of a response in the parts that are sent; small ones are joined."""
    lines = response.lines or header_lines(response)
    head = _LINES[response.status], clock.header, lines, _END if keep_alive else _LAST
    if response.bodiless:
        return (b"".join(head),)
    if response.length <= _JOINED:
        return (b"".join((*head, *response.parts)),)
    return (b"".join(head), *response.parts)


def header_lines(response: HttpResponse) -> bytes:
    """The headers of a response, its length among them, as they are sent."""
    lines = [b"%b: %b\r\n" % header for header in response.headers]
    return b"".join((*lines, b"content-length: %d\r\n" % response.length))
