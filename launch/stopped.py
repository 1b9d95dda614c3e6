"""Which rank of a job on several hosts is stopped by a signal: other hosts take it for gone, its own must follow."""

from __future__ import annotations

import time
from collections.abc import Sequence

from ..comm.processes.rank_process import RankProcess

_INTERVAL = 1.0
_LOOKS = 5
"""After how many looks in a row the others have given it up; they do after four seconds."""


class StoppedRanks:
    """Looks each second; `watching` says whether at all, as within one host a stopped rank may go on."""

    def __init__(self, watching: bool) -> None:
        self._watching = watching
        self._next = 0.0
        self._seen: dict[int, int] = {}

    def patience(self) -> float | None:
        """Seconds until the next look is due."""
        return max(0.0, self._next - time.monotonic()) if self._watching else None

    def look(self, processes: Sequence[RankProcess]) -> RankProcess | None:
        """A process that has been stopped for too long; call it after every wait."""
        if self.patience() != 0.0:
            return None
        self._next = time.monotonic() + _INTERVAL
        for process in processes:
            self._seen[process.pid] = self._seen.get(process.pid, 0) + 1 if process.stopped else 0
        return next((process for process in processes if self._seen[process.pid] >= _LOOKS), None)
