"""The works that the ranks of a group have been given and have not finished, and what they have answered so far."""

from __future__ import annotations

import threading
import time
from collections import deque

from ..comm.errors import OutOfMemory
from ..comm.serving.nonsense import Nonsense
from ..comm.serving.orders import AS_ORDERED, Answer, Room
from ..comm.serving.ring import Ring, State
from ..comm.serving.tensor_arena import OwnedArena
from .outputs import OutputSpecs
from .request import Request
from .work import Work

_NO_ROOM = Room(0, 0)
_BRIEF = 0.03
"""Seconds. After longer works a rank can wait a moment, and a request had better wait for whichever group is free."""


class Works:
    """Oldest first, each with its order in the ring of the epoch that is under way; `lock` guards all of it.

    A work's place in the ring is another's as soon as it has left: who reads there holds the lock, and looks before.
    What reads answers raises Nonsense where a rank has written what is none; the work is still there then.
    """

    def __init__(self, lock: threading.Lock, arena: OwnedArena, world_size: int) -> None:
        """`arena` gives ranks the room they ask for."""
        self._lock, self._arena, self._ranks = lock, arena, range(world_size)
        self._works: deque[Work] = deque()
        self._ring: Ring | None = None
        self._outputs: OutputSpecs | None = None
        self._stages, self._ahead, self._brief = 1, False, False
        self._granted_last: dict[int, int] = {}
        """By rank: the order for which it was last granted room, which needs no more than once."""

    # with the lock

    def __len__(self) -> int:
        """How many are under way."""
        return len(self._works)

    @property
    def load(self) -> int | None:
        """How many are under way; None if there may be no more."""
        if self._ring is None:
            return None
        if not self._works:
            return 0
        under_way = self._ring.given - self._works[0].number
        room = under_way < self._stages or under_way == self._stages and self._brief and self._hurry()
        return len(self._works) if room else None

    def open(self, ring: Ring, outputs: OutputSpecs, stages: int, ahead: bool) -> None:
        """Ranks take orders from `ring`; so many can be under way, each in another of their stages.

        With `ahead` there may be one more where works are brief: then a rank does not wait for whoever takes an answer
        to give it the next order. Until it has begun, that can be recalled.
        """
        self._ring, self._outputs, self._stages, self._ahead = ring, outputs, stages, ahead
        self._granted_last.clear()

    def give(self, work: Work, order: bytes) -> None:
        """Give the ranks a work and its order; there must be room. RankmeshError where that is too long."""
        assert self._ring is not None
        work.number, work.begun = self._ring.given, time.monotonic()
        self._works.append(work)  # first: it may be answered before `give` returns
        try:
            self._ring.give(work.number, order, work.seat)
        except BaseException:  # also an interrupt of the caller whose thread this is
            if self._ring.given == work.number:
                self._works.pop()
            raise

    def run(self, request: Request) -> bool:
        """Whether a request is under way."""
        return self._of(request) is not None

    def recall(self, request: Request | None = None) -> Work | None:
        """Take back the work that was given ahead, if no rank has begun with it, and, if given, it is `request`."""
        if self._ring is None or len(self._works) <= self._stages or not self._ahead:
            return None
        work = self._works[-1]
        if not work.requests or request is not None and request not in work.requests:
            return None
        return self._works.pop() if self._ring.recall(work.number) else None

    def close(self) -> list[Work]:
        """No rank takes orders any more: the works that are not finished."""
        works = list(self._works)
        self._works.clear()
        self._ring = None
        return works

    # without it

    def first(self) -> Work | None:
        """The oldest."""
        with self._lock:
            return self._works[0] if self._works else None

    def finish(self, work: Work) -> list[Answer] | None:
        """Take a work out if all ranks have carried it out rightly; their answers.

        None where there is more to do about it, or somebody else has taken it out.
        """
        with self._lock:
            return self._finished(work)

    def finish_that_of(self, request: Request) -> tuple[Work, list[Answer]] | None:
        """As `finish`, of the work of a request."""
        with self._lock:
            work = self._of(request)
            answers = self._finished(work) if work is not None else None
            return (work, answers) if work is not None and answers is not None else None

    def forsake(self, request: Request) -> None:
        """Nobody waits at the seat of a request any more."""
        with self._lock:
            work = self._of(request)
            ring = self._ring_of(work) if work is not None else None
            if work is not None and ring is not None:
                ring.forsake(work.number)

    def remove(self, work: Work) -> None:
        """Take a work out, however it was answered."""
        with self._lock:
            if work in self._works:
                self._works.remove(work)

    def answers(self, work: Work) -> dict[int, Answer]:
        """What ranks have answered so far, by rank; none where somebody else has taken it out. Grants ranks room."""
        with self._lock:
            ring = self._ring_of(work)
            if ring is None:
                return {}
            for rank in self._ranks:
                if ring.state(work.number, rank) is State.NEEDS_ROOM:
                    ring.grant(work.number, rank, self._granted(ring, work, rank))
            return {rank: ring.answer(work.number, rank) for rank in self._ranks
                    if ring.state(work.number, rank) is State.ANSWERED}

    def _of(self, request: Request) -> Work | None:
        for work in self._works:
            if request in work.requests:
                return work
        return None

    def _finished(self, work: Work) -> list[Answer] | None:
        ring = self._ring_of(work)
        if ring is None or not ring.answered(work.number):
            return None
        answers = []
        for rank in self._ranks:
            answer = ring.answer(work.number, rank)
            if answer.error:
                return None
            if answer is not AS_ORDERED:
                self._check(rank, answer, work)
            answers.append(answer)
        self._works.remove(work)
        self._brief = time.monotonic() - work.begun < _BRIEF
        return answers

    def _check(self, rank: int, answer: Answer, work: Work) -> None:
        assert self._outputs is not None
        self._outputs.check(rank, answer, work)

    def _hurry(self) -> bool:
        """Whether ranks are to have an order ahead: not behind a work that is taking long, which others might not."""
        return self._ahead and time.monotonic() - self._works[0].begun < _BRIEF

    def _ring_of(self, work: Work) -> Ring | None:
        """The ring, if it has the order of `work`, which nobody has taken out."""
        return self._ring if work in self._works and self._ring and self._ring.given > work.number else None

    def _granted(self, ring: Ring, work: Work, rank: int) -> Room:
        """As much room as a rank needs; none where there is no memory, which it answers as its error."""
        assert self._outputs is not None
        needed = ring.answer(work.number, rank).needed
        before = work.regions[rank] if work.regions else None
        if before is None or needed <= before.size or self._granted_last.get(rank) == work.number:
            raise Nonsense(rank, f"asked for room of {needed} bytes, which its request does not need")
        self._granted_last[rank] = work.number
        try:
            work.regions[rank] = region = self._arena.allocate(needed)
        except OutOfMemory:
            return _NO_ROOM
        self._outputs.remember(work.given[rank], needed)
        return Room(region.offset, region.size)
