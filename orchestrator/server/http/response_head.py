"""Response heads: the status line and the headers of a response."""

from __future__ import annotations

from email.utils import formatdate
from http import HTTPStatus

from .exchange import HttpResponse

CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
_LINES = {one.value: f"HTTP/1.1 {one.value} {one.phrase}\r\n".encode() for one in HTTPStatus}


class Clock:
    """The date as responses tell it; it is set once a second."""

    def __init__(self) -> None:
        self.header = b""
        self.set()

    def set(self) -> None:
        """Take the current time."""
        self.header = f"date: {formatdate(usegmt=True)}\r\n".encode()


def response_head(response: HttpResponse, clock: Clock, keep_alive: bool) -> bytes:
    """The bytes before the body of a response."""
    lines = [_LINES[response.status], clock.header]
    for name, value in response.headers:
        lines.append(b"%b: %b\r\n" % (name, value))
    lines.append(b"content-length: %d\r\n" % response.length)
    lines.append(b"\r\n" if keep_alive else b"connection: close\r\n\r\n")
    return b"".join(lines)
