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

from ..comm.errors import UsageError
from ..comm.processes.guardian import Guardian

_LOG = logging.getLogger("rankmesh.orchestrator")
Act = Callable[[], object]
_LONGEST_SLEEP = 3600.0
"""Seconds; the kernel takes no more than 24 days, and who means for ever may give any number."""



class Timer:
    """A call that is due at some moment, unless it is cancelled; what it would have called is let go then."""

    __slots__ = ("_act",)

    def __init__(self, act: Act) -> None:
        self._act: Act | None = act

    @property
    def pending(self) -> bool:
        """Whether it has neither called nor been cancelled."""
        return self._act is not None

    def cancel(self) -> None:
        """Do not call; in the loop's thread."""
        self._act = None

    def __call__(self) -> None:
        """The moment has come."""
        act, self._act = self._act, None
        if act is not None:
            act()


class Loop(threading.Thread):
    """Calls back when a descriptor is ready or a moment has come; all callbacks run in this thread.

    The processes of ranks are started here, too: the kernel ends them with the thread that started them. `guardian`
    ends what they have started, should this whole process be killed.
    """

    def __init__(self) -> None:
        super().__init__(name="rankmesh-orchestrator", daemon=True)
        self._selector = selectors.DefaultSelector()
        self._wake = -1
        self._soon: deque[Act] = deque()
        self._later: list[tuple[float, int, Timer]] = []
        self._number = itertools.count()
        self._running = True
        self._waking = threading.Lock()
        self.guardian = Guardian()

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

    def require_another(self, call: str) -> None:
        """UsageError where `call`, which waits for this thread, is made in it."""
        if threading.get_ident() == self.ident:
            raise UsageError(f"{call} waits for the thread that calls back, and may not be called from a callback of a "
                             f"future: use submit there, or another thread.")

    def call_soon(self, act: Act) -> None:
        """Have `act` called in this thread; from any thread. Once the thread has ended nothing is called."""
        self._soon.append(act)
        with self._waking:  # or the number of the closed descriptor may be another file's
            if self._wake >= 0:
                os.eventfd_write(self._wake, 1)

    def call_later(self, seconds: float, act: Act) -> Timer:
        """Have `act` called in this thread after `seconds`; in this thread only."""
        timer = Timer(act)
        heapq.heappush(self._later, (time.monotonic() + seconds, next(self._number), timer))
        return timer

    def start(self) -> None:
        """Start the thread, and the guardian before it; before this, nothing has to be freed."""
        self.guardian.__enter__()
        self._wake = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        self.watch(self._wake, lambda: os.eventfd_read(self._wake))
        super().start()

    def stop(self) -> None:
        """End the thread after what it is doing; from any thread."""
        self.call_soon(self._end)

    def run(self) -> None:
        """Until `stop`."""
        try:
            while self._running:
                self._turn()
        finally:
            self._selector.close()
            with self._waking:
                os.close(self._wake)
                self._wake = -1
            self.guardian.__exit__(None, None, None)

    def _turn(self) -> None:
        registered = self._selector.get_map()
        for key, _ in self._selector.select(self._patience()):
            if registered.get(key.fd) is key:  # or an earlier one of these calls has forgotten, and maybe closed it
                self._call(key.data)
        while self._soon:
            self._call(self._soon.popleft())
        while self._later and self._later[0][0] <= time.monotonic():
            self._call(heapq.heappop(self._later)[2])

    def _end(self) -> None:
        self._running = False

    def _patience(self) -> float | None:
        if self._soon:
            return 0.0
        while self._later and not self._later[0][2].pending:
            heapq.heappop(self._later)
        return min(max(0.0, self._later[0][0] - time.monotonic()), _LONGEST_SLEEP) if self._later else None

    def _call(self, act: Act) -> None:
        try:
            act()
        except BaseException:  # one fault of ours must not end the supervision of all ranks
            _LOG.exception("the orchestrator's thread goes on after a fault")


class Alarm:
    """One call at the earliest of all moments that were asked for since the last one; for a caller's lock."""

    def __init__(self, loop: Loop, act: Act) -> None:
        self._loop, self._act = loop, act
        self._moment: float | None = None
        self._timer: Timer | None = None

    def at(self, moment: float | None) -> None:
        """Call at `moment` of `time.monotonic`, or before; None: no need. From any thread that holds the lock."""
        if moment is not None and (self._moment is None or moment < self._moment):
            self._moment = moment
            self._loop.call_soon(self._arm)

    def _arm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if self._moment is not None:
            self._timer = self._loop.call_later(self._moment - time.monotonic(), self._ring)

    def _ring(self) -> None:
        self._moment = None  # first: what is asked for meanwhile is either seen by the call or makes another
        self._act()
