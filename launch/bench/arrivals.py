"""Arrivals: the moments at which requests of an open loop are due, as a Poisson process."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterator

import numpy as np

_BLOCK = 1024


def poisson(rate: float, seconds: float, seed: int) -> Iterator[float]:
    """Moments from 0 to `seconds`: independent, `rate` of them in a second on average."""
    random = np.random.default_rng(seed)
    at = 0.0
    while True:
        for gap in random.exponential(1 / rate, _BLOCK):
            at += gap
            if at >= seconds:
                return
            yield at


class Pacer(threading.Thread):
    """Calls back in an asyncio loop at each moment; timers of loops are a millisecond late."""

    def __init__(
        self,
        moments: Iterator[float],
        due: Callable[[float], None],
        ended: Callable[[], None],
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        """`moments` are of the monotonic clock; `due` gets each of them when it has come."""
        super().__init__(name="rankmesh-bench-pacer", daemon=True)
        self._moments = moments
        self._due = due
        self._ended = ended
        self._loop = loop
        self._stopped = threading.Event()

    def run(self) -> None:
        """Wait for each moment."""
        for moment in self._moments:
            left = moment - time.monotonic()
            if left > 0:
                self._stopped.wait(left)
            if self._stopped.is_set():
                break
            self._loop.call_soon_threadsafe(self._due, moment)
        self._loop.call_soon_threadsafe(self._ended)

    def stop(self) -> None:
        """Call back no more."""
        self._stopped.set()
