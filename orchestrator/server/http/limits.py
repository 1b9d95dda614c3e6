"""Limits of HTTP: bound the size, the time and the number of what clients send."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class HttpLimits:
    """Limits of one server. Sizes are in bytes, times in seconds."""

    header_bytes: int = 32 << 10
    """Of the request line and all headers."""

    headers: int = 100
    """How many headers a request may have."""

    body_bytes: int = 1 << 30
    """Of a body, compressed or not."""

    connections: int = 1000
    """How many are open at a time. A further one takes the place of the one that has been idle for
    longest; where less than a tenth is idle, of the one whose client is the slowest with a body or
    a response; where the server computes for all of them, it gets status 503.
    """

    header_seconds: float = 10.0
    """From the first byte of a request to the end of its headers."""

    body_seconds: float = 20.0
    """For a body, besides what its bytes take at `body_rate`."""

    body_rate: int = 64 << 10
    """Bytes a second that a client sends at least."""

    idle_seconds: float = 75.0
    """Between two requests, and before the first."""

    write_seconds: float = 30.0
    """Without a byte of the response that the client takes."""
