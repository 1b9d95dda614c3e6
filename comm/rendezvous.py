"""Where the ranks of a job meet before they run: exchanges of all ranks, then the collectives."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from contextlib import suppress
from typing import Protocol

from .arena import Arena
from .channel import Channel, ChannelClosed, ChannelSilent
from .collectives.alone import AloneCollectives
from .collectives.base import Collectives
from .collectives.choose import SHARED_MEMORY
from .collectives.join import join_collectives
from .errors import RankFailed, error_named
from .messages import Exchange, Exchanged, Failed
from .progress import Progress, Stage
from .rank import Rank

_LOG = logging.getLogger("rankmesh")
Groups = Sequence[tuple[int, ...]]
Pairs = Sequence[tuple[int, int]]


class Meeting(Protocol):
    """How one rank finds the others, whoever started them."""

    rank: Rank
    implementation: str
    """The name of the collectives to join (see `choose_collectives`), the same on all ranks."""

    def enter(self, stage: Stage) -> None:
        """Say what this rank is doing now, for those who wait for it."""

    def exchange(self, payload: bytes) -> list[bytes]:
        """Give `payload`, get everybody's in rank order; RankFailed if somebody cannot come."""

    def collectives(self, groups: Groups, pairs: Pairs) -> Collectives:
        """Join the collectives of the given groups and (source, destination) pairs, the same on all ranks."""


class ChannelMeeting:
    """A meeting of one host: a supervisor or the first rank relays exchanges, and all share an arena.

    `relay` is who relays, for messages.
    """

    def __init__(self, rank: Rank, channel: Channel, arena: Arena, timeout: float,
                 relay: str = "the process that brings the ranks together") -> None:
        self.rank = rank
        self.implementation = SHARED_MEMORY
        self._relay = relay
        self._channel = channel
        self._arena = arena
        self._timeout = timeout
        self._progress = Progress(arena, rank.rank)

    def enter(self, stage: Stage) -> None:
        """See Meeting.enter."""
        _LOG.info("%s: %s", self.rank, stage.name)
        self._progress.stage = stage

    def exchange(self, payload: bytes) -> list[bytes]:
        """See Meeting.exchange; whoever relays keeps the deadline and names who is late."""
        with suppress(ChannelClosed):  # why it was closed may have been said before
            self._channel.send(Exchange(payload))
        try:
            answer = self._channel.receive()
        except ChannelSilent as error:
            raise RankFailed(f"{self.rank}: {self._relay} does not answer: it may be stopped or stuck") from error
        except ChannelClosed as error:
            raise RankFailed(f"{self.rank}: {self._relay} is gone") from error
        if isinstance(answer, Failed):
            raise error_named(answer.error, answer.text)
        if not isinstance(answer, Exchanged):
            raise RankFailed(f"{self.rank}: expected the other ranks' payloads, got {type(answer).__name__}")
        return answer.payloads

    def collectives(self, groups: Groups, pairs: Pairs) -> Collectives:
        """See Meeting.collectives."""
        return join_collectives(self.implementation, self.rank, self.exchange, self._arena, groups, pairs,
                                self._timeout)


class Alone:
    """The meeting of a world of one: nobody to wait for."""

    def __init__(self, rank: Rank) -> None:
        self.rank = rank
        self.implementation = SHARED_MEMORY

    def enter(self, stage: Stage) -> None:
        """See Meeting.enter; nobody asks, but a script may listen to the logger `rankmesh`."""
        _LOG.info("%s: %s", self.rank, stage.name)

    def exchange(self, payload: bytes) -> list[bytes]:
        """See Meeting.exchange."""
        return [payload]

    def collectives(self, groups: Groups, pairs: Pairs) -> Collectives:
        """See Meeting.collectives."""
        return AloneCollectives()
