"""How long a rank waits for others, and what it says when they do not come."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import NoReturn, Protocol

from ..arena import ABORT_WORD, Arena, Cause
from ..errors import CollectiveAborted, CollectiveMismatch, CollectiveTimeout, RankFailed
from ..progress import Progress, Stage
from ..rank import Rank

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


class Patience:
    """One rank's deadline (`timeout` seconds, 0 for none) and its way to end the job."""

    def __init__(self, arena: Arena, rank: Rank, timeout: float) -> None:
        self._arena = arena
        self._words = arena.words
        self._rank = rank
        self._timeout = timeout

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
        raise (_ERRORS.get(cause, CollectiveAborted) if record.cause is cause else CollectiveAborted)(record.text)

    def check_missing(self, what: str, place: Place) -> None:
        """Nobody waits for a rank whose process has ended, nor longer than the deadline."""
        ended = [r for r in place.missing() if Progress(self._arena, r).stage is Stage.ENDED]
        if ended:
            self.fail(ended[0], Cause.DIED, (
                f"{self._rank} waited in {what} for rank {ended[0]}, whose process has ended "
                f"(it {Progress(self._arena, ended[0]).read()})"))
        self._check_deadline(what, place)

    def _check_deadline(self, what: str, place: Place) -> None:
        waited = (time.monotonic_ns() - place.first_entry()) / 1e9
        if not 0 < self._timeout < waited:
            return
        missing = place.missing()
        if missing:
            self.check_abort()
            culprit, text = self._lateness(what, missing, place)
            self.fail(culprit, Cause.LATE, text)

    def _lateness(self, what: str, missing: Sequence[int], place: Place) -> tuple[int, str]:
        """Who did not come, and what they do instead; the culprit is one that waits for nobody else."""
        reports = [Progress(self._arena, r).read() for r in range(self._arena.world_size)]
        absent = [r for r in missing if not reports[r].waiting]
        idle = [] if absent else [r for r, report in enumerate(reports) if not report.waiting]
        said = [
            f"rank {r} {'entered it but does not go on' if place.entered(r) else 'never entered it'}"
            f" (it {reports[r]})" for r in missing[:_TOLD]]
        said += [f"in no collective: rank {r} (it {reports[r]})" for r in idle[:_TOLD]]
        return (absent or idle or missing)[0], (
            f"{self._rank} waited in {what} until {self._timeout:g} s after the first rank's entry: "
            f"{'; '.join(said)}. Look at what that rank printed; if it only needs longer, raise "
            "RANKMESH_COLLECTIVE_TIMEOUT (seconds, 0 = no deadline)")
