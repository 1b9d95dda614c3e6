"""The one thread of an orchestrator that waits: for answers, for ends of processes, for moments."""

from __future__ import annotations

import heapq
import itertools
import logging
import os
import selectors
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Any

_LOG = logging.getLogger("rankmesh")
Act = Callable[[], None]


class Loop(threading.Thread):
    """Calls back when a descriptor is ready or a moment has come; all callbacks run in this thread.

    The processes of ranks are started here, too: the kernel ends them with the thread that started them.
    """

    def __init__(self) -> None:
        super().__init__(name="rankmesh-orchestrator", daemon=True)
        self._selector = selectors.DefaultSelector()
        self._wake = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        self._soon: deque[Act] = deque()
        self._later: list[tuple[float, int, Act]] = []
        self._number = itertools.count()
        self._running = True
        self.watch(self._wake, lambda: os.eventfd_read(self._wake))

    def watch(self, descriptor: Any, act: Act) -> None:
        """Have `act` called whenever `descriptor` is readable; in this thread, or before it is started."""
        self._selector.register(descriptor, selectors.EVENT_READ, act)

    def forget(self, descriptor: Any) -> None:
        """Stop watching a descriptor, if it is watched."""
        try:
            self._selector.unregister(descriptor)
        except (KeyError, ValueError):
            return

    @property
    def selector(self) -> selectors.BaseSelector:
        """What the thread waits at, for those who register for more than reading; keys' data are called."""
        return self._selector

    def call_soon(self, act: Act) -> None:
        """Have `act` called in this thread; from any thread."""
        self._soon.append(act)
        os.eventfd_write(self._wake, 1)

    def call_later(self, seconds: float, act: Act) -> None:
        """Have `act` called in this thread after `seconds`; in this thread only."""
        heapq.heappush(self._later, (time.monotonic() + seconds, next(self._number), act))

    def stop(self) -> None:
        """End the thread after what it is doing; from any thread."""
        self.call_soon(self._end)

    def run(self) -> None:
        """Until `stop`."""
        while self._running:
            for key, _ in self._selector.select(self._patience()):
                self._call(key.data)
            while self._soon:
                self._call(self._soon.popleft())
            while self._later and self._later[0][0] <= time.monotonic():
                self._call(heapq.heappop(self._later)[2])
        self._selector.close()
        os.close(self._wake)

    def _end(self) -> None:
        self._running = False

    def _patience(self) -> float | None:
        if self._soon:
            return 0.0
        return max(0.0, self._later[0][0] - time.monotonic()) if self._later else None

    def _call(self, act: Act) -> None:
        try:
            act()
        except Exception:  # one fault of ours must not end the supervision of all ranks
            _LOG.exception("the orchestrator's thread goes on after a fault")
