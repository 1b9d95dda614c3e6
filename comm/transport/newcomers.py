"""Newcomers: bounds the number and the time of connections whose first message has not come."""

from __future__ import annotations

import time
from collections.abc import Hashable, Iterator
from typing import Generic, TypeVar

ConnectionT = TypeVar("ConnectionT", bound=Hashable)

SECONDS = 10.0
"""Until the first message of a connection: a stopped process must not keep a place."""

SILENT = f"no message came within {SECONDS:g} s of the connection"
CROWDED = "others wanted to connect, and this had sent nothing for longest"


class Newcomers(Generic[ConnectionT]):
    """Connections in the order in which they came, and until when each may be silent."""

    def __init__(self, most: int) -> None:
        """So many may wait at a time."""
        self._most = most
        self._waiting: dict[ConnectionT, float] = {}

    def __len__(self) -> int:
        return len(self._waiting)

    def __iter__(self) -> Iterator[ConnectionT]:
        return iter(list(self._waiting))

    def add(self, connection: ConnectionT) -> ConnectionT | None:
        """A connection comes; the one that is to make room for it, if there is none."""
        self._waiting[connection] = time.monotonic() + SECONDS
        return self.oldest() if len(self._waiting) > self._most else None

    def remove(self, connection: ConnectionT) -> None:
        """A connection has sent a message, or is closed."""
        self._waiting.pop(connection, None)

    def oldest(self) -> ConnectionT | None:
        """The one that has waited for longest."""
        return next(iter(self._waiting), None)

    def late(self) -> list[ConnectionT]:
        """Those that have been silent for too long."""
        now = time.monotonic()
        return [one for one, deadline in self._waiting.items() if deadline <= now]

    def next_timeout(self) -> float | None:
        """Seconds until one is too late; None: none waits."""
        oldest = self.oldest()
        return None if oldest is None else max(0.0, self._waiting[oldest] - time.monotonic())
