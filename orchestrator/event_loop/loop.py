"""Event loop thread of an orchestrator: waits for answers, exits of processes, and timers."""

from __future__ import annotations

import logging
import os
import threading
import time

from ...comm.errors import UsageError
from ...comm.processes.event_loop import Action, EventLoop, Timer
from ...comm.processes.guardian import Guardian
from ...comm.request_memory.idle_memory import IDLE_SECONDS, IdleMemory
from ...comm.request_memory.owned_arena import OwnedArena
from ...comm.serving.caller_slots import CallerSlots

_LOG = logging.getLogger("rankmesh.orchestrator")


class EventLoopThread(EventLoop, threading.Thread):
    """A thread that turns an event loop; all callbacks run in it.

    It also starts the processes of ranks: the kernel ends them with the thread that started them.
    `guardian` ends what they have started, should this whole process be killed.
    """

    def __init__(self) -> None:
        EventLoop.__init__(self)
        threading.Thread.__init__(self, name="rankmesh-orchestrator", daemon=True)
        self._wake = -1
        self._running = True
        self._waking = threading.Lock()
        self.guardian = Guardian()

    def require_another(self, call: str) -> None:
        """Raise UsageError where `call`, which waits for this thread, is made in it."""
        if threading.get_ident() == self.ident:
            raise UsageError(
                f"{call} waits for the thread that calls back, and may not be called from a "
                "callback of a future: use submit there, or another thread."
            )

    def call_soon(self, action: Action) -> None:
        """Call `action` in this thread; from any thread. It is dropped after the thread's end."""
        super().call_soon(action)
        if threading.get_ident() == self.ident:  # it turns, and sees the action in this turn
            return
        with self._waking:  # else the number of the closed descriptor may be another file's
            if self._wake >= 0:
                os.eventfd_write(self._wake, 1)

    def start(self) -> None:
        """Start the thread, and the guardian before it; before this, nothing has to be freed."""
        self.guardian.__enter__()
        self._wake = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        self.watch(self._wake, lambda: os.eventfd_read(self._wake))
        threading.Thread.start(self)

    def stop(self) -> None:
        """End the thread after its current callback; from any thread."""
        self.call_soon(self._end)

    def run(self) -> None:
        """Turn the loop until `stop`."""
        try:
            while self._running:
                self.turn()
        finally:
            self.close()
            with self._waking:
                os.close(self._wake)
                self._wake = -1
            self.guardian.__exit__(None, None, None)

    def _end(self) -> None:
        self._running = False

    def _call(self, action: Action) -> None:
        try:
            action()
        except BaseException:  # a fault in one callback must not end the supervision of all ranks
            _LOG.exception("the orchestrator's thread goes on after a fault")


class Alarm:
    """One call at the earliest of the moments that were asked for since the last call.

    Safe for any thread.
    """

    def __init__(self, loop: EventLoopThread, act: Action) -> None:
        self._loop = loop
        self._act = act
        self._moment: float | None = None
        self._timer: Timer | None = None
        self._lock = threading.Lock()

    def at(self, moment: float | None) -> None:
        """Call at `moment` of `time.monotonic`, or before; None: no call is needed."""
        known = self._moment
        if moment is None or known is not None and known <= moment:
            return  # where that call begins just now, it finds what is asked for here
        with self._lock:
            if self._moment is None or moment < self._moment:
                self._moment = moment
                self._loop.call_soon(self._arm)

    def _arm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        moment = self._moment
        if moment is not None:
            self._timer = self._loop.call_later(moment - time.monotonic(), self._ring)

    def _ring(self) -> None:
        with self._lock:
            self._moment = None  # first: a moment that is asked for meanwhile makes another call
        self._act()


_SECOND = 1.0


class IdleTrim:
    """Frees the unused memory of an arena after `seconds` without a request, until it closes."""

    def __init__(
        self, arena: OwnedArena, loop: EventLoopThread, seconds: float = IDLE_SECONDS
    ) -> None:
        self._memory, self._loop, self._seconds = IdleMemory(arena), loop, seconds
        loop.call_soon(self._arm)

    def _arm(self) -> None:
        self._loop.call_later(self._seconds, self._look)

    def _look(self) -> None:
        if self._memory.look():
            self._arm()


class Reminder:
    """Wakes the callers that sleep at their seats once a second, so that none misses an interrupt
    for longer.
    """

    def __init__(self, seats: CallerSlots, loop: EventLoopThread) -> None:
        self._seats, self._loop = seats, loop
        loop.call_soon(self._arm)

    def _arm(self) -> None:
        self._loop.call_later(_SECOND, self._remind)

    def _remind(self) -> None:
        self._seats.remind()
        self._arm()
