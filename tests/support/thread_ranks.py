"""Ranks of a job in threads of one process, for tests of what they compute: none is started."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from rankmesh.comm.collectives.backend import Collectives
from rankmesh.comm.collectives.registry import ON_ONE_HOST, backend_named
from rankmesh.comm.errors import RankFailed
from rankmesh.comm.job.rank import Rank
from rankmesh.comm.job_memory.arena import Arena
from rankmesh.comm.rendezvous.rendezvous import ArenaRendezvous, Groups, Pairs

_SECONDS = 30.0
Result = TypeVar("Result")


class _Meeting:
    """What the threads hand to each other."""

    def __init__(self, count: int) -> None:
        self.payloads = [b""] * count
        self.barrier = threading.Barrier(count, timeout=_SECONDS)

    def exchange(self, rank: int, payload: bytes) -> list[bytes]:
        self.payloads[rank] = payload
        try:
            self.barrier.wait()
            found = list(self.payloads)
            self.barrier.wait()
        except threading.BrokenBarrierError as error:
            raise RankFailed("the thread of another rank has failed") from error
        return found


class ThreadRendezvous(ArenaRendezvous):
    """See Rendezvous."""

    def __init__(self, rank: Rank, arena: Arena, meeting: _Meeting) -> None:
        super().__init__(rank, arena, _SECONDS, set())
        self.choice = ON_ONE_HOST
        self._meeting = meeting

    def exchange(self, payload: bytes) -> list[bytes]:
        """See Rendezvous.exchange."""
        return self._meeting.exchange(self.rank.rank, payload)

    def collectives(self, groups: Groups, pairs: Pairs) -> Collectives:
        """See Rendezvous.collectives."""
        everyone = frozenset(range(self.rank.world_size))
        return backend_named(self.choice.name).join(self._membership(groups, pairs, everyone))


def in_threads(count: int, work: Callable[[ThreadRendezvous], Result]) -> list[Result]:
    """What `work` gives for each rank; the first error of its own that a rank raises."""
    arena, meeting = Arena.create(count), _Meeting(count)
    arenas = [Arena.attach(arena.fd, rank) for rank in range(count)]

    def of(number: int) -> Result:
        rank = Rank(number, count, number, count, "testhost", number)
        try:
            return work(ThreadRendezvous(rank, arenas[number], meeting))
        except BaseException:
            meeting.barrier.abort()
            raise

    with ThreadPoolExecutor(count) as pool:
        futures = [pool.submit(of, number) for number in range(count)]
    arena.close()
    errors = [error for one in futures if (error := one.exception()) is not None]
    if errors:
        raise min(errors, key=lambda one: isinstance(one, RankFailed))
    return [one.result() for one in futures]
