"""The end of an epoch's processes, while the loop goes on with everything else."""

from __future__ import annotations

import logging
import signal
from collections.abc import Callable, Sequence
from functools import partial

from ..comm.processes.rank_process import RankProcess
from .loop import Loop

_LOG = logging.getLogger("rankmesh.orchestrator")
_KILL_GRACE = 5.0
"""Seconds after which a killed process is not waited for: it is inside an uninterruptible system call."""

Schedule = Sequence[tuple[float, signal.Signals]]
AT_ONCE: Schedule = ((0.0, signal.SIGKILL),)
ASKED: Schedule = ((0.4, signal.SIGTERM), (0.8, signal.SIGKILL))
"""For processes that have been asked to end, in seconds."""

_KEEPING = 10.0
"""Seconds for a process that has nothing to do any more but to write its build into the model cache."""


def _nobody() -> None:
    """Who is told once all has been told."""


class Ending:
    """Signals processes at their times, and frees each, with all that it has started, as soon as it has ended."""

    def __init__(self, processes: Sequence[RankProcess], schedule: Schedule, loop: Loop,
                 ended: Callable[[], None], keeping: Callable[[RankProcess], bool]) -> None:
        """`ended` is called once no process is left; before that, too, if one does not end even when it is killed.

        `keeping` says whether one still writes its build into the model cache: it may take a while longer.
        """
        self._left = list(processes)
        self._loop, self._notify, self._keeping = loop, ended, keeping
        for process in processes:
            loop.watch(process.pidfd, partial(self._free, process))
        self._timers = [loop.call_later(seconds, partial(self._send, number, True))
                        for seconds, number in schedule if seconds]
        killed = schedule[-1][0]
        self._timers.append(loop.call_later(killed + _KILL_GRACE, partial(self._tell_stuck, killed > 0)))
        if killed:
            self._timers.append(loop.call_later(_KEEPING, partial(self._send, signal.SIGKILL, False)))
            self._timers.append(loop.call_later(_KEEPING + _KILL_GRACE, partial(self._tell_stuck, False)))
        else:
            self._send(signal.SIGKILL, False)
        if not processes:
            loop.call_soon(self._finish)

    @property
    def done(self) -> bool:
        """Whether no process is left."""
        return not self._left

    def _send(self, number: signal.Signals, sparing: bool) -> None:
        for process in self._left:
            if sparing and self._keeping(process):
                continue
            if number == signal.SIGKILL:
                process.kill_descendants()  # with the process, which leads their group
            else:
                process.send_signal(number)

    def _free(self, process: RankProcess) -> None:
        self._loop.forget(process.pidfd)
        self._left.remove(process)
        try:
            process.kill_descendants()  # before it is reaped: until then nobody else gets its number
            process.status()
            self._loop.guardian.forget(process.pid)
            process.close()
        finally:
            if not self._left:
                self._finish()

    def _finish(self) -> None:
        for timer in self._timers:
            timer.cancel()
        notify, self._notify = self._notify, _nobody  # whose epoch refers to this: its memory is to be free at once
        notify()

    def _tell_stuck(self, sparing: bool) -> None:
        if sparing and any(self._keeping(process) for process in self._left):
            return
        for process in self._left:
            _LOG.error("%s (pid %d) has been killed but does not end: the kernel ends it when its system call returns",
                       process.rank, process.pid, extra={"rank": process.rank.rank})
        self._notify()
