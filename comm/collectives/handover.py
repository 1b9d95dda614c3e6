"""Handing words over between ranks: publish one, wait for another's, and what to say when it never comes."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from functools import reduce
from operator import or_
from typing import NoReturn, Protocol

from .. import futex
from ..arena import ABORT_WORD, Arena, Cause, waiting_word
from ..errors import CollectiveAborted, CollectiveMismatch, CollectiveTimeout, RankFailed
from ..progress import Progress, Stage
from ..rank import Rank
from .base import Call

_SPINS = 2000

_YIELDS = 8
"""Offers of the core to whoever is late, before sleeping; where cores are shared this costs half a sleep."""

_TOLD = 4

_ERRORS: dict[Cause, type[RankFailed]] = {Cause.LATE: CollectiveTimeout, Cause.MISMATCH: CollectiveMismatch}


class Place(Protocol):
    """Where a rank waits: whom for, and since when."""

    def missing(self) -> Sequence[int]:
        """The ranks that are waited for and have not come."""

    def entered(self, rank: int) -> bool:
        """Whether a missing rank entered the collective at all (and then stopped in the middle)."""

    def first_entry(self) -> int:
        """When the first of the ranks entered, in nanoseconds of the monotonic clock."""


class Handover:
    """One rank's side of every meeting: its words, its sleep, its deadline, its last words."""

    call: Call

    def __init__(self, arena: Arena, rank: Rank, timeout: float) -> None:
        self._arena = arena
        self._words = arena.words
        self._rank = rank
        self._timeout = timeout
        self._waiting = waiting_word(rank.rank)
        self._spins: int | None = None

    def publish(self, word: int, value: int, readers: Sequence[int]) -> None:
        """Set `word` and wake those who sleep on it; `readers` are the waiting words of who might."""
        words = self._words
        futex.order_fence()
        words[word] = value
        futex.full_fence()
        for reader in readers:
            if words[reader] == word * 8:
                futex.wake(self._arena.address + word * 8)
                break

    def wait(self, word: int, target: int, place: Place) -> None:
        """Return once `word` has reached `target`; raises when the job is aborted or the deadline passes."""
        words = self._words
        for _ in range(self._spins if self._spins is not None else self._decide()):
            if words[word] >= target:
                return
        for _ in range(_YIELDS):
            os.sched_yield()
            if words[word] >= target:
                return
        words[self._waiting] = word * 8
        try:
            self._sleep(word, target, place)
        finally:
            words[self._waiting] = 0

    def check_abort(self) -> None:
        """Raise if the job was aborted."""
        if self._words[ABORT_WORD]:
            record = self._arena.aborted()
            assert record is not None
            raise CollectiveAborted(record.text)

    def fail(self, culprit: int | None, cause: Cause, text: str) -> NoReturn:
        """Abort the job, so that all tell the same story, then raise; an earlier abort is told instead."""
        self._arena.abort(culprit, cause, text)
        record = self._arena.aborted()
        assert record is not None
        raise (_ERRORS[cause] if record.cause is cause else CollectiveAborted)(record.text)

    def _sleep(self, word: int, target: int, place: Place) -> None:
        words, address = self._words, self._arena.address + word * 8
        while (value := words[word]) < target:
            self.check_abort()
            if not futex.wait(address, value) and words[word] < target:
                self._check_missing(place)

    def _decide(self) -> int:
        """How long to spin: not at all when there are more ranks than cores, as they need each other's."""
        masks = [Progress(self._arena, rank).cores() for rank in range(self._arena.world_size)]
        if sum(map(bool, masks)) < self._rank.local_size:
            return 0
        cores = reduce(or_, masks).bit_count()
        self._spins = _SPINS if cores >= self._rank.local_size else 0
        return self._spins

    def _check_missing(self, place: Place) -> None:
        """Nobody waits for a rank whose process has ended, nor longer than the deadline."""
        ended = [r for r in place.missing() if Progress(self._arena, r).stage is Stage.ENDED]
        if ended:
            self.fail(ended[0], Cause.DIED, (
                f"{self._rank} waited in {self._what()} for rank {ended[0]}, whose process has ended "
                f"(it {Progress(self._arena, ended[0]).read()})"))
        self._check_deadline(place)

    def _what(self) -> str:
        at = f" of node {self.call.node!r}" if self.call.node else ""
        return f"collective {self.call.index} ({self.call.kind.value}{at})"

    def _check_deadline(self, place: Place) -> None:
        waited = (time.monotonic_ns() - place.first_entry()) / 1e9
        if not 0 < self._timeout < waited:
            return
        missing = place.missing()
        if missing:
            self.check_abort()
            culprit, text = self._lateness(missing, place)
            self.fail(culprit, Cause.LATE, text)

    def _lateness(self, missing: Sequence[int], place: Place) -> tuple[int, str]:
        """Who did not come, and what they do instead; the culprit is one that waits for nobody else."""
        reports = [Progress(self._arena, r).read() for r in range(self._arena.world_size)]
        absent = [r for r in missing if not reports[r].waiting]
        idle = [] if absent else [r for r, report in enumerate(reports) if not report.waiting]
        said = [
            f"rank {r} {'entered it but does not go on' if place.entered(r) else 'never entered it'}"
            f" (it {reports[r]})" for r in missing[:_TOLD]]
        said += [f"in no collective: rank {r} (it {reports[r]})" for r in idle[:_TOLD]]
        return (absent or idle or missing)[0], (
            f"{self._rank} waited in {self._what()} until {self._timeout:g} s after the first rank's entry: "
            f"{'; '.join(said)}. Look at what that rank printed; if it only needs longer, raise "
            "RANKMESH_COLLECTIVE_TIMEOUT (seconds, 0 = no deadline)")
