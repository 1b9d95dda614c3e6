"""Process ender: ends processes by a schedule of signals while their event loop goes on."""

from __future__ import annotations

import signal
from collections.abc import Callable, Sequence
from functools import partial

from .event_loop import Action, EventLoop, Timer
from .rank_process import RankProcess

Schedule = Sequence[tuple[float, signal.Signals]]
"""Signals, and after how many seconds each is sent; the last one is SIGKILL."""

AT_ONCE: Schedule = ((0.0, signal.SIGKILL),)
ASKED: Schedule = ((0.4, signal.SIGTERM), (0.8, signal.SIGKILL))
"""For processes that have been asked to end."""

_KILL_GRACE = 5.0
"""Seconds after which a killed process must be inside a system call that cannot be interrupted."""

_SAVING_GRACE = 10.0
"""Seconds for a process that only has to write its build into the model cache."""


def _ignore(left: Sequence[RankProcess]) -> None:
    """Replaces the callback that has been called: it refers to objects that are to be freed."""


class ProcessEnder:
    """Signals processes at their times, and hands over each as soon as it has ended.

    A process that still writes its build into the model cache gets more time than the schedule has.
    """

    def __init__(
        self,
        processes: Sequence[RankProcess],
        schedule: Schedule,
        loop: EventLoop,
        release: Callable[[RankProcess], None],
        finished: Callable[[Sequence[RankProcess]], None],
        saving: Callable[[RankProcess], bool],
    ) -> None:
        """Call `release` with each process that has ended, and `finished` once no process is left.

        `finished` is also called, earlier, with killed processes that do not end. `over` tells
        whether it was called. `saving` tells whether a process still writes its build.
        """
        self.left = list(processes)
        self.over = False
        self._loop = loop
        self._release = release
        self._finished = finished
        self._saving = saving
        self._timers: list[Timer] = []
        for process in processes:
            loop.watch(process.pidfd, partial(self._free, process))
        self._follow(schedule)
        if not processes:
            loop.call_soon(self._finish)

    def _follow(self, schedule: Schedule) -> None:
        for seconds, number in schedule:
            self._at(seconds, partial(self._signal, number, bool(seconds)))
        killed = schedule[-1][0]
        self._at(killed + _KILL_GRACE, partial(self._give_up, bool(killed)))
        if killed:
            self._at(_SAVING_GRACE, partial(self._signal, signal.SIGKILL, False))
            self._at(_SAVING_GRACE + _KILL_GRACE, partial(self._give_up, False))

    def _at(self, seconds: float, action: Action) -> None:
        if seconds:
            self._timers.append(self._loop.call_later(seconds, action))
        else:
            action()

    def _signal(self, number: signal.Signals, sparing: bool) -> None:
        """Signal all processes that are left, `sparing` those that still write their build."""
        for process in self.left:
            if sparing and self._saving(process):
                continue
            if number == signal.SIGKILL:
                process.kill()
            else:
                process.send_signal(number)

    def _free(self, process: RankProcess) -> None:
        self._loop.forget(process.pidfd)
        self.left.remove(process)
        try:
            self._release(process)
        finally:
            if not self.left:
                self._finish()

    def _give_up(self, sparing: bool) -> None:
        if not (sparing and any(map(self._saving, self.left))):
            self.over = True
            self._finished(self.left)

    def _finish(self) -> None:
        for timer in self._timers:
            timer.cancel()
        self.over = True
        finished = self._finished
        self._finished = _ignore
        finished(self.left)
