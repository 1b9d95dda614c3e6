"""Remote process: the process of a rank on another host, as its agent tells of it."""

from __future__ import annotations

from collections import deque

from ...comm.job.rank import Rank
from ...comm.job_memory.progress import ProgressSnapshot, Stage
from ...comm.processes.rank_process import KEPT_LINES


class RemoteProcess:
    """See SupervisedProcess; all else is what its agent told last."""

    def __init__(self, rank: Rank) -> None:
        self.rank = rank
        self.pid = 0
        self.place = ""
        self.last_lines: deque[str] = deque(maxlen=KEPT_LINES)
        self.stopped = False
        self.reported = False
        """Whether it takes orders."""

        self.ended = "has ended"
        """How it ended."""

        self.progress = ProgressSnapshot(Stage.STARTING, None, 0, None)

    def epitaph(self) -> str:
        """See SupervisedProcess.epitaph."""
        return self.ended
