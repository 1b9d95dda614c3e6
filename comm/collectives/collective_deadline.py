"""Collective deadline: ends the wait for ranks that are late or gone, and names them."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import NoReturn, Protocol

from ..errors import CollectiveAborted, CollectiveMismatch, CollectiveTimeout, RankFailed
from ..job.rank import Rank
from ..job_memory.arena import ABORT_WORD, Arena, Cause
from ..job_memory.progress import Progress, Stage

_TOLD = 4

_ERRORS: dict[Cause, type[RankFailed]] = {
    Cause.LATE: CollectiveTimeout,
    Cause.MISMATCH: CollectiveMismatch,
}


class WaitPoint(Protocol):
    """A point at which a rank waits for other ranks."""

    def missing(self) -> Sequence[int]:
        """The ranks that have not come."""

    def entered(self, rank: int) -> bool:
        """Whether a missing rank entered the collective, and then stopped in the middle."""

    def first_entry(self) -> int:
        """When the first of the ranks entered, in nanoseconds of the monotonic clock."""


class CollectiveDeadline:
    """One rank's deadline, in seconds (`timeout`, 0: none), and its way to end the job."""

    def __init__(self, arena: Arena, rank: Rank, timeout: float) -> None:
        self._arena = arena
        self._words = arena.words
        self._rank = rank
        self._timeout = timeout

    def check_abort(self) -> None:
        """Raise CollectiveAborted if the job was aborted."""
        if self._words[ABORT_WORD] and (record := self._arena.aborted()):
            raise CollectiveAborted(record.text)

    def fail(self, culprit: int | None, cause: Cause, text: str) -> NoReturn:
        """Abort the job and raise: all ranks report the same failure.

        An earlier abort is raised instead.
        """
        record = self._arena.abort(culprit, cause, text)
        error = _ERRORS.get(cause, CollectiveAborted)
        raise (error if record.cause is cause else CollectiveAborted)(record.text)

    def check_missing(self, what: str, point: WaitPoint) -> None:
        """Fail if a missing rank has ended, or if the deadline is over."""
        for rank in point.missing():
            progress = Progress(self._arena, rank)
            if progress.stage is Stage.ENDED:
                text = (
                    f"{self._rank} waited in {what} for rank {rank}, whose process has ended (it "
                    f"{progress.read()})"
                )
                self.fail(rank, Cause.DIED, text)
        self._check_deadline(what, point)

    def _check_deadline(self, what: str, point: WaitPoint) -> None:
        waited = (time.monotonic_ns() - point.first_entry()) / 1e9
        if not 0 < self._timeout < waited:
            return
        missing = point.missing()
        if missing:
            self.check_abort()
            culprit, text = self._lateness(what, missing, point)
            self.fail(culprit, Cause.LATE, text)

    def _lateness(self, what: str, missing: Sequence[int], point: WaitPoint) -> tuple[int, str]:
        """The culprit, and a text with the missing ranks and what they do instead.

        The culprit is a rank that does not wait for another one.
        """
        reports = [Progress(self._arena, r).read() for r in range(self._arena.world_size)]
        absent = [r for r in missing if not reports[r].waiting]
        idle = [] if absent else [r for r, report in enumerate(reports) if not report.waiting]
        said = [
            f"rank {r} "
            f"{'entered it but does not go on' if point.entered(r) else 'never entered it'} (it "
            f"{reports[r]})"
            for r in missing[:_TOLD]
        ]
        said += [f"in no collective: rank {r} (it {reports[r]})" for r in idle[:_TOLD]]
        return (absent or idle or missing)[0], (
            f"{self._rank} waited in {what} until {self._timeout:g} s after the first rank's "
            f"entry: {'; '.join(said)}. Look at what that rank printed; if it only needs longer, "
            "raise RANKMESH_COLLECTIVE_TIMEOUT (seconds, 0 = no deadline)"
        )
