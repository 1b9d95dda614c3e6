"""Ranks that meet inside the test's own process: one alone, or several as threads, over a real
arena.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

from rankmesh.comm.collectives.backend import Collectives
from rankmesh.comm.collectives.registry import ON_ONE_HOST
from rankmesh.comm.collectives.shared_memory.collectives import SharedMemoryCollectives
from rankmesh.comm.errors import RankFailed
from rankmesh.comm.job.rank import Rank
from rankmesh.comm.job_memory.arena import Arena, Cause
from rankmesh.comm.job_memory.progress import Stage

PATIENCE = 60.0


class MemoryMeeting:
    """One of the ranks of a test; `stages` are those it went through."""

    def __init__(
        self, rank: Rank, arena: Arena, payloads: list[bytes], barrier: threading.Barrier
    ) -> None:
        self.rank, self._arena, self._payloads, self._barrier = rank, arena, payloads, barrier
        self.choice = ON_ONE_HOST
        self.stages: list[Stage] = []

    def enter(self, stage: Stage) -> None:
        self.stages.append(stage)

    def exchange(self, payload: bytes) -> list[bytes]:
        self._payloads[self.rank.rank] = payload
        try:
            self._barrier.wait()
            everybodys = list(self._payloads)
            self._barrier.wait()
        except threading.BrokenBarrierError as error:
            raise RankFailed("another rank failed") from error
        return everybodys

    def collectives(
        self, groups: Sequence[tuple[int, ...]], pairs: Sequence[tuple[int, int]]
    ) -> Collectives:
        return SharedMemoryCollectives(self.rank, self._arena, groups, pairs, PATIENCE)

    def leave(self) -> None:
        """Give up: those who wait for this rank, and those who will, fail."""
        self._barrier.abort()
        self._arena.abort(self.rank.rank, Cause.FAILED, "another rank failed")


@contextmanager
def meetings(world_size: int = 1) -> Iterator[list[MemoryMeeting]]:
    """The meetings of all ranks of a job."""
    arena = Arena.create(world_size)
    arenas = [Arena.attach(os.dup(arena.fd), rank) for rank in range(world_size)]
    payloads, barrier = [b""] * world_size, threading.Barrier(world_size, timeout=PATIENCE)
    try:
        yield [
            MemoryMeeting(
                Rank(r, world_size, r, world_size, "here", 0), arenas[r], payloads, barrier
            )
            for r in range(world_size)
        ]
    finally:
        for one in (*arenas, arena):
            one.close()


def together(world_size: int, act: Callable[[MemoryMeeting], Any]) -> list[Any]:
    """Run `act` as every rank, each a thread; the results, or the error of the first rank that had
    one of its own.
    """
    with meetings(world_size) as ranks, ThreadPoolExecutor(world_size) as pool:
        futures = [pool.submit(_guarded, act, rank) for rank in ranks]
        errors = [error for future in futures if (error := future.exception())]
        if errors:
            raise next(
                (error for error in errors if "another rank failed" not in str(error)), errors[0]
            )
        return [future.result() for future in futures]


def _guarded(act: Callable[[MemoryMeeting], Any], meeting: MemoryMeeting) -> Any:
    try:
        return act(meeting)
    except BaseException:
        meeting.leave()
        raise
