"""Steps: work on what clients send, in parts of some milliseconds, beside the loop.

A part is what runs without a look at anything else: Python gives no other thread a turn while one
call of a library decodes or inflates. So work that grows with a body is a generator, which yields
between two parts.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")
Steps = Generator[None, None, T]
PART = 1 << 16
"""Bytes of one part; work on fewer is done by the loop itself."""

_THREADS = 2
"""More would only take turns, as Python runs one at a time."""


def finished(steps: Steps[T]) -> T:
    """The result of work that is little: all of it at once."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return end.value  # type: ignore[no-any-return]


def _one_step(work: Callable[[], T]) -> Steps[T]:
    yield
    return work()


class StepThreads:
    """Threads of one server that take steps. They give up all work at its end."""

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(_THREADS, "rankmesh-steps")
        self._closed = threading.Event()

    async def run(self, steps: Steps[T]) -> T:
        """The result of work that may be much. It ends where this coroutine is cancelled: then
        asyncio.CancelledError is raised, as after `close`.
        """
        if self._closed.is_set():
            raise asyncio.CancelledError
        given_up = threading.Event()
        loop = asyncio.get_running_loop()
        try:
            return await loop.run_in_executor(self._threads, self._take, steps, given_up)
        finally:
            given_up.set()

    async def call(self, work: Callable[[], T]) -> T:
        """The result of bounded work that gives other threads a turn."""
        return await self.run(_one_step(work))

    def close(self) -> None:
        """Give up all work."""
        self._closed.set()
        self._threads.shutdown(wait=False, cancel_futures=True)

    def _take(self, steps: Steps[T], given_up: threading.Event) -> T:
        while not given_up.is_set() and not self._closed.is_set():
            try:
                next(steps)
            except StopIteration as end:
                return end.value  # type: ignore[no-any-return]
        steps.close()
        raise asyncio.CancelledError
