"""Rendezvous of the ranks of a job before they run: exchanges of all ranks, then collectives."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import suppress
from typing import Protocol

from ..collectives.backend import Collectives, Membership
from ..collectives.registry import ON_ONE_HOST, BackendChoice, backend_named
from ..collectives.single_rank import SingleRankCollectives
from ..collectives.tracking import PendingCollective
from ..errors import RankFailed, error_named
from ..job.rank import Rank
from ..job_memory.arena import Arena
from ..job_memory.progress import Progress, Stage
from ..loggers import LOG
from ..transport.channel import Channel
from ..transport.message_stream import ChannelClosed, ChannelSilent
from ..transport.messages import Exchange, Exchanged, Failed, Message

Groups = Sequence[tuple[int, ...]]
Pairs = Sequence[tuple[int, int]]


class Rendezvous(Protocol):
    """One rank's connection to the other ranks of its job, for any way of starting them."""

    rank: Rank
    choice: BackendChoice
    """The collective backend; the same on all ranks once these join the collectives."""

    def enter(self, stage: Stage) -> None:
        """Note the stage of this rank, which the other ranks and the supervisor see."""

    def exchange(self, payload: bytes) -> list[bytes]:
        """Give `payload`, return those of all ranks in rank order.

        Raises RankFailed if a rank cannot come.
        """

    def collectives(self, groups: Groups, pairs: Pairs) -> Collectives:
        """Join the collectives of the given groups and (source, destination) pairs.

        All ranks of the job pass the same.
        """


class ArenaRendezvous(ABC):
    """See Rendezvous. Ranks of one host share an arena."""

    def __init__(
        self, rank: Rank, arena: Arena, timeout: float, pending: set[PendingCollective]
    ) -> None:
        """`pending` is what the rank waits in, for a thread that watches for failures."""
        self.rank = rank
        self._arena = arena
        self._timeout = timeout
        self._pending = pending
        self._progress = Progress(arena, rank.rank)

    def enter(self, stage: Stage) -> None:
        """See Rendezvous.enter."""
        self._progress.stage = stage

    @abstractmethod
    def exchange(self, payload: bytes) -> list[bytes]:
        """See Rendezvous.exchange."""

    def _membership(
        self, groups: Groups, pairs: Pairs, local: frozenset[int], address: str = ""
    ) -> Membership:
        """This rank's part; `local` are the ranks of its host, `address` is that of rank 0's."""
        return Membership(
            rank=self.rank,
            arena=self._arena,
            exchange=self.exchange,
            groups=groups,
            pairs=pairs,
            timeout=self._timeout,
            local=local,
            pending=self._pending,
            address=address,
        )


class ChannelRendezvous(ArenaRendezvous):
    """The rendezvous of one host: one process relays the exchanges, and all share an arena.

    `relay` names that process, a supervisor or a rank, in messages.
    """

    def __init__(
        self,
        rank: Rank,
        channel: Channel,
        arena: Arena,
        timeout: float,
        relay: str = "the process that brings the ranks together",
    ) -> None:
        super().__init__(rank, arena, timeout, set())
        self.choice = ON_ONE_HOST
        self._relay = relay
        self._channel = channel

    def enter(self, stage: Stage) -> None:
        """See Rendezvous.enter."""
        LOG.info("%s: %s", self.rank, stage.name)
        super().enter(stage)

    def exchange(self, payload: bytes) -> list[bytes]:
        """See Rendezvous.exchange; the relaying process keeps the deadline and names late ranks."""
        with suppress(ChannelClosed):  # the reason may have come before it was closed
            self._channel.send(Exchange(payload))
        try:
            answer = self._channel.receive()
        except ChannelSilent as error:
            raise RankFailed(
                f"{self.rank}: {self._relay} does not answer: it may be stopped or stuck"
            ) from error
        except ChannelClosed as error:
            raise RankFailed(f"{self.rank}: {self._relay} is gone") from error
        return exchanged_payloads(self.rank, answer)

    def collectives(self, groups: Groups, pairs: Pairs) -> Collectives:
        """See Rendezvous.collectives."""
        everyone = frozenset(range(self.rank.world_size))
        return backend_named(self.choice.name).join(self._membership(groups, pairs, everyone))


class SingleRank:
    """The rendezvous of a world of one rank, which waits for no other."""

    def __init__(self, rank: Rank) -> None:
        self.rank = rank
        self.choice = ON_ONE_HOST

    def enter(self, stage: Stage) -> None:
        """See Rendezvous.enter; a script may listen to the logger `rankmesh`."""
        LOG.info("%s: %s", self.rank, stage.name)

    def exchange(self, payload: bytes) -> list[bytes]:
        """See Rendezvous.exchange."""
        return [payload]

    def collectives(self, groups: Groups, pairs: Pairs) -> Collectives:
        """See Rendezvous.collectives."""
        return SingleRankCollectives()


def exchanged_payloads(rank: Rank, answer: Message) -> list[bytes]:
    """The payloads that the answer to an Exchange has; raises the error that it has instead."""
    if isinstance(answer, Failed):
        raise error_named(answer.error, answer.text)
    if not isinstance(answer, Exchanged):
        raise RankFailed(f"{rank}: expected the other ranks' payloads, got {type(answer).__name__}")
    return answer.payloads
