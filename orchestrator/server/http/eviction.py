"""Eviction order: tells which connections make room for new ones, idle ones before slow clients."""

from __future__ import annotations

from collections.abc import Set
from math import inf
from operator import itemgetter

from .connection_host import Connection

_RANKED_SECONDS = 0.1
"""How long one look at all connections is used: many may come at once."""

_NEWCOMERS = 10
"""One connection of so many may be idle while slow clients make room: it has not been read yet."""

_Rank = tuple[float, Connection]


class EvictionOrder:
    """Connections that wait for their clients: those that have been idle for longest come first;
    where few are idle, those whose clients are the slowest with a body or a response.
    """

    def __init__(self) -> None:
        self._slow = False
        self._ranks: list[_Rank] = []
        self._until = -inf

    def next(self, connections: Set[Connection], now: float) -> Connection | None:
        """The first of these connections at a moment of the loop's clock; None: the server computes
        for all of them.
        """
        found = self._pop(connections) if now < self._until else None
        if found is None:
            self._rank(connections)
            self._until = now + _RANKED_SECONDS
            found = self._pop(connections)
        return found

    def _rank(self, connections: Set[Connection]) -> None:
        """Look at all connections; the first to make room comes last."""
        newcomers = len(connections) // _NEWCOMERS
        ranks = [(one.deadline, one) for one in connections if one.idle]
        self._slow = len(ranks) <= newcomers and any(map(_slow, connections))
        if self._slow:
            ranks = [(one.deadline, one) for one in connections if _slow(one)]
        ranks.sort(key=itemgetter(0), reverse=True)
        self._ranks = ranks[-max(1, newcomers) :]

    def _pop(self, connections: Set[Connection]) -> Connection | None:
        """The first that is still as it was."""
        while self._ranks:
            deadline, found = self._ranks.pop()
            if found in connections and self._still_waits(found, deadline):
                return found
        return None

    def _still_waits(self, connection: Connection, deadline: float) -> bool:
        if self._slow:
            return _slow(connection)
        return connection.idle and connection.deadline == deadline


def _slow(connection: Connection) -> bool:
    return connection.awaits_client and not connection.idle
