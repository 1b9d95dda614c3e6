"""The end of processes: a while to end by themselves, then TERM, then KILL, each with a deadline."""

from __future__ import annotations

import signal
import time
from collections.abc import Sequence

from .rank_process import RankProcess

_TERM_GRACE, _KILL_GRACE = 0.4, 5.0


def end_processes(processes: Sequence[RankProcess], grace: float, term_grace: float = _TERM_GRACE) -> None:
    """End all of them; only one inside an uninterruptible system call may still be there afterwards.

    Both are seconds: before TERM, and between TERM and KILL.
    """
    _wait(processes, grace)
    for number, seconds in ((signal.SIGTERM, term_grace), (signal.SIGKILL, _KILL_GRACE)):
        for process in processes:
            process.send_signal(number)
        _wait(processes, seconds)


def _wait(processes: Sequence[RankProcess], seconds: float) -> None:
    deadline = time.monotonic() + seconds
    for process in processes:
        process.wait(max(0.0, deadline - time.monotonic()))
