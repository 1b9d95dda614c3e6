"""Virtual time: an event loop that skips to its next timer, where the real one would sleep."""

from __future__ import annotations

import selectors
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rankmesh.comm.processes.event_loop import EventLoop
from rankmesh.orchestrator.event_loop.loop import EventLoopThread

Action = Callable[[], object]
_TRIALS = 1000


class Stalled(Exception):
    """The simulation waits for something that will never come."""


def _nothing() -> None:
    """Show what a call costs."""


class VirtualClock:
    """Seconds since the begin of a simulation."""

    def __init__(self) -> None:
        self.now = 0.0

    @contextmanager
    def running(self) -> Iterator[None]:
        """`time.monotonic` of the whole process is this clock."""
        real = time.monotonic
        time.monotonic = lambda: self.now
        try:
            yield
        finally:
            time.monotonic = real


class Meter:
    """Nanoseconds of processor time that the orchestrator's own code has taken.

    It runs from the beginning. Simulated hosts, ranks and clients are `outside`.
    """

    def __init__(self) -> None:
        self._own = 0
        self._inside = True
        self._since = time.thread_time_ns()
        self._overhead = 0
        for _ in range(_TRIALS):
            self.outside(_nothing)
        self._overhead = self.own // _TRIALS
        self._own = 0
        self._since = time.thread_time_ns()

    @property
    def own(self) -> int:
        """The time so far."""
        return self._own + (time.thread_time_ns() - self._since if self._inside else 0)

    def outside(self, action: Action) -> None:
        """Call `action`, which is no part of an orchestrator."""
        self._call(action, False)

    def inside(self, action: Action) -> None:
        """Call `action`, which is a part of an orchestrator, from outside."""
        self._call(action, True)

    def _call(self, action: Action, inside: bool) -> None:
        before = self._inside
        self._switch(inside)
        try:
            action()
        finally:
            self._switch(before)

    def _switch(self, inside: bool) -> None:
        now = time.thread_time_ns()
        if self._inside:
            self._own += now - self._since - (0 if inside else self._overhead)
        self._inside, self._since = inside, now


class _SkippingSelector:
    """A selector that moves the clock in place of sleeping."""

    def __init__(self, selector: selectors.BaseSelector, clock: VirtualClock) -> None:
        self._selector, self._clock = selector, clock
        self.register, self.unregister = selector.register, selector.unregister
        self.get_map, self.close = selector.get_map, selector.close

    def select(self, timeout: float | None) -> list[tuple[selectors.SelectorKey, int]]:
        """What is ready now; the clock has moved by `timeout` where nothing is."""
        ready = self._selector.select(0)
        if not ready and timeout is None:
            raise Stalled("no timer is left")
        if not ready and timeout:
            self._clock.now += timeout
        return ready


class VirtualLoop(EventLoopThread):
    """An orchestrator's event loop in virtual time, turned by the thread of the simulation."""

    def __init__(self, clock: VirtualClock) -> None:
        super().__init__()
        self._clock = clock
        self._selector = _SkippingSelector(self._selector, clock)
        self.meter = Meter()

    def turn_until(self, done: Callable[[], bool], latest: float) -> None:
        """Turn until `done`. Raises Stalled at the moment `latest`."""
        while not done():
            if self._clock.now > latest:
                raise Stalled(f"not done after {latest:g} s")
            self.turn()

    def simulate(self, seconds: float, action: Action) -> None:
        """Call `action`, which is no part of an orchestrator, after `seconds`."""
        self.call_later(seconds, lambda: self.meter.outside(action))

    def _call(self, action: Action) -> None:
        EventLoop._call(self, action)  # errors end the simulation
