"""Completions: results of an orchestrator's futures, awaited in an asyncio loop."""

from __future__ import annotations

import asyncio
from collections import deque
from concurrent.futures import Future
from contextlib import suppress
from functools import partial
from typing import TypeVar

ResultT = TypeVar("ResultT")


class Completions:
    """Wakes coroutines of one loop when futures of other threads are done.

    Many that are done at about the same time cost one wake of the loop.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._done: deque[asyncio.Future[None]] = deque()
        self._announced = False

    async def wait(self, future: Future[ResultT]) -> ResultT:
        """The result of a future, or its error; cancels it if the coroutine is cancelled."""
        waiter = self._loop.create_future()
        future.add_done_callback(partial(self._announce, waiter))
        try:
            await waiter
        except asyncio.CancelledError:
            future.cancel()
            raise
        return future.result()

    def _announce(self, waiter: asyncio.Future[None], _: Future[ResultT]) -> None:
        """Note a waiter whose future is done; in any thread."""
        self._done.append(waiter)
        if self._announced:
            return
        self._announced = True
        with suppress(RuntimeError):  # the loop is closed, and no coroutine waits any more
            self._loop.call_soon_threadsafe(self._wake)

    def _wake(self) -> None:
        self._announced = False  # first: what is added from here on announces itself
        while self._done:
            waiter = self._done.popleft()
            if not waiter.done():
                waiter.set_result(None)
