"""Restarts of server processes: decides how soon one is started again, and when never."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable

_SPAN = 60.0
_MOST = 20
"""Ends within the span after which no process is started again."""

_FIRST, _LONGEST = 0.05, 5.0


class RestartDelays:
    """Delays by the ends of the last minute, in seconds."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._ends: deque[float] = deque()
        self.count = 0
        """How many processes were started again."""

    def next(self) -> float | None:
        """A process has ended: the seconds until it is started again, None for never."""
        now = self._clock()
        self._ends.append(now)
        while self._ends[0] < now - _SPAN:
            self._ends.popleft()
        if len(self._ends) > _MOST:
            return None
        self.count += 1
        return min(_LONGEST, _FIRST * 1.5 ** (len(self._ends) - 1))
