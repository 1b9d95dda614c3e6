"""Load: sends requests at one level, in a closed or an open loop."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from functools import partial

from .arrivals import Pacer, poisson
from .levels import Level
from .samples import Samples
from .targets.target import BenchClient, Target

MOST_CONNECTIONS = 200
"""Of an open loop. Requests that find none free wait, and the wait is part of their latency."""

_REST = 0.02
"""Seconds until a client of a closed loop goes on after a failure."""


class ClosedLoop:
    """A number of clients, each with a connection of its own."""

    def __init__(self, target: Target, clients: int, timeout: float) -> None:
        self._connections = [target.connection() for _ in range(clients)]
        self._timeout = timeout

    async def run(self, samples: Samples, end: float) -> None:
        """Send requests until `end`, and wait for the last answers."""
        await asyncio.gather(*(self._client(one, samples, end) for one in self._connections))

    async def close(self) -> None:
        """Close all connections."""
        for one in self._connections:
            await one.close()

    async def _client(self, connection: BenchClient, samples: Samples, end: float) -> None:
        while True:
            now = time.monotonic()
            if now >= end:
                return
            if not await samples.ask(connection, now, self._timeout):
                await asyncio.sleep(_REST)


class OpenLoop:
    """Requests that are due at the moments of a Poisson process, whatever becomes of others."""

    def __init__(self, target: Target, rate: float, timeout: float, seed: int) -> None:
        self._target = target
        self._rate = rate
        self._timeout = timeout
        self._seed = seed
        self._all: list[BenchClient] = []
        self._free: list[BenchClient] = []
        self._waiting = deque[float]()
        self._tasks = set[asyncio.Task[None]]()

    async def run(self, samples: Samples, end: float) -> None:
        """Send requests until `end`, and wait for the last answers."""
        loop = asyncio.get_running_loop()
        begin = time.monotonic()
        moments = (begin + at for at in poisson(self._rate, end - begin, self._seed))
        ended = asyncio.Event()
        pacer = Pacer(moments, partial(self._due, samples), ended.set, loop)
        pacer.start()
        try:
            await ended.wait()
            while self._tasks:
                await asyncio.wait(self._tasks)
        finally:
            pacer.stop()
            for task in self._tasks:
                task.cancel()

    async def close(self) -> None:
        """Close all connections."""
        for one in self._all:
            await one.close()

    def _due(self, samples: Samples, moment: float) -> None:
        if moment >= samples.begin:
            samples.lags.append(time.monotonic() - moment)
        self._waiting.append(moment)
        if not self._free and len(self._all) < MOST_CONNECTIONS:
            self._free.append(self._target.connection())
            self._all.append(self._free[-1])
        if self._free:
            task = asyncio.create_task(self._serve(self._free.pop(), samples))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _serve(self, connection: BenchClient, samples: Samples) -> None:
        """Send what waits, by one connection."""
        while self._waiting:
            await samples.ask(connection, self._waiting.popleft(), self._timeout)
        self._free.append(connection)


Loop = ClosedLoop | OpenLoop


def loop_of(level: Level, target: Target, timeout: float, seed: int) -> Loop:
    """The loop of a level."""
    if level.rate is not None:
        return OpenLoop(target, level.rate, timeout, seed)
    return ClosedLoop(target, level.clients or 1, timeout)
