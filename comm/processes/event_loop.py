"""Event loop: calls back, in the thread that turns it, when descriptors are ready or timers due."""

from __future__ import annotations

import heapq
import itertools
import selectors
import time
from collections import deque
from collections.abc import Callable
from typing import Protocol

Action = Callable[[], object]


class HasFileno(Protocol):
    """An object with a descriptor."""

    def fileno(self) -> int:
        """The descriptor."""


class Timer:
    """One call at a moment; a cancelled timer releases what it would have called."""

    __slots__ = ("_action",)

    def __init__(self, action: Action) -> None:
        self._action: Action | None = action

    @property
    def pending(self) -> bool:
        """Whether the call is still to come."""
        return self._action is not None

    def cancel(self) -> None:
        """Drop the call; only in the loop's thread."""
        self._action = None

    def __call__(self) -> None:
        """Make the call, at most once."""
        action = self._action
        self._action = None
        if action is not None:
            action()


class EventLoop:
    """Callbacks of descriptors and timers; for one thread."""

    def __init__(self) -> None:
        self._selector = selectors.DefaultSelector()
        self._soon: deque[Action] = deque()
        self._timers: list[tuple[float, int, Timer]] = []
        self._numbers = itertools.count()

    def watch(
        self, descriptor: int | HasFileno, action: Action, events: int = selectors.EVENT_READ
    ) -> None:
        """Call `action` whenever `descriptor` is ready for `events` (of the module selectors)."""
        self._selector.register(descriptor, events, action)

    def forget(self, descriptor: int | HasFileno) -> None:
        """Stop watching a descriptor; a descriptor that is not watched is ignored."""
        try:
            self._selector.unregister(descriptor)
        except (KeyError, ValueError):
            return

    def call_soon(self, action: Action) -> None:
        """Call `action` in this turn or the next one."""
        self._soon.append(action)

    def call_later(self, seconds: float, action: Action) -> Timer:
        """Call `action` after `seconds`."""
        timer = Timer(action)
        heapq.heappush(self._timers, (time.monotonic() + seconds, next(self._numbers), timer))
        return timer

    def turn(self, longest: float | None = None) -> None:
        """Wait for a descriptor or a timer, at most `longest` seconds, and make the calls."""
        watched = self._selector.get_map()
        for key, _ in self._selector.select(self._next_timeout(longest)):
            if watched.get(key.fd) is key:  # an earlier callback may have forgotten and closed it
                self._call(key.data)
        while self._soon:
            self._call(self._soon.popleft())
        while self._timers and self._timers[0][0] <= time.monotonic():
            self._call(heapq.heappop(self._timers)[2])

    def close(self) -> None:
        """Stop watching everything; calls to come are dropped, with what they refer to."""
        self._selector.close()
        self._timers.clear()
        self._soon = deque(maxlen=0)

    def _call(self, action: Action) -> None:
        action()

    def _next_timeout(self, longest: float | None) -> float | None:
        if self._soon:
            return 0.0
        while self._timers and not self._timers[0][2].pending:
            heapq.heappop(self._timers)
        if not self._timers:
            return longest
        # the kernel waits for at most 24 days, and a caller may ask for any number
        due = min(max(0.0, self._timers[0][0] - time.monotonic()), 3600.0)
        return due if longest is None else min(due, longest)
