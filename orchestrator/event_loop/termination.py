"""Termination: drains the orchestrators of a process that is sent TERM, then lets it end."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable
from types import FrameType

_drains: dict[Termination, None] = {}


class Termination:
    """Drains one orchestrator when the process is sent TERM, where the program itself has no
    handler for it.
    """

    def __init__(
        self, drain: Callable[[float | None], bool], close: Callable[[], None], timeout: float
    ) -> None:
        """`timeout` is how many seconds requests under way may still take."""
        self._drain = drain
        self._close = close
        self._timeout = timeout

    def enable(self) -> None:
        """Drain at the next TERM."""
        _drains[self] = None
        own = signal.getsignal(signal.SIGTERM) == signal.SIG_DFL
        if own and threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, _terminate)

    def forget(self) -> None:
        """The orchestrator is closed."""
        _drains.pop(self, None)

    def carry_out(self) -> None:
        """Drain and close."""
        self._drain(self._timeout)
        self._close()


def _terminate(number: int, frame: FrameType | None) -> None:
    """In the main thread, which may wait for a result: that must still come, so another thread
    waits for the end.

    A second TERM ends the process at once.
    """
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    threading.Thread(target=_end, args=(os.getpid(),), name="rankmesh-drain", daemon=True).start()


def _end(process: int) -> None:
    drains = [
        threading.Thread(target=one.carry_out, name="rankmesh-drain", daemon=True)
        for one in list(_drains)
    ]
    for drain in drains:
        drain.start()
    for drain in drains:
        drain.join()
    os.kill(process, signal.SIGTERM)


def _leave_to_the_parent() -> None:
    """Let TERM end a forked child at once: the requests and ranks are its parent's."""
    _drains.clear()
    if signal.getsignal(signal.SIGTERM) is _terminate:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


os.register_at_fork(after_in_child=_leave_to_the_parent)
