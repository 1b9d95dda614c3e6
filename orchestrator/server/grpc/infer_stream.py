"""Stream of inference requests: they run side by side, and their answers keep their order."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable

from ....comm.errors import Draining

_AT_ONCE = 64
"""Requests of one stream that run or wait to be sent; the next is read when one has been sent."""


class InferenceStream:
    """One stream: `answer` answers each of its requests."""

    def __init__(self, answer: Callable[[bytes], Awaitable[bytes]]) -> None:
        self._answer = answer
        self._room = asyncio.Semaphore(_AT_ONCE)
        self._tasks: asyncio.Queue[asyncio.Future[bytes] | None] = asyncio.Queue()
        self._reader: asyncio.Future[None] | None = None
        self._ended = False

    def end(self) -> None:
        """Read no further request."""
        self._ended = True
        if self._reader is not None:
            self._reader.cancel()

    async def answers(self, requests: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        """The answers in the order of the requests. Raises what the first failure has raised, and
        Draining after an `end`.
        """
        self._reader = asyncio.ensure_future(self._read(requests))
        task: asyncio.Future[bytes] | None = None
        try:
            while (task := await self._tasks.get()) is not None:
                yield await task
                self._room.release()
            if self._ended:
                raise Draining("the server is about to end: open a stream to another.")
            await self._reader
        finally:
            self._cancel(task)

    async def _read(self, requests: AsyncIterator[bytes]) -> None:
        try:
            await self._room.acquire()
            async for body in requests:
                self._tasks.put_nowait(asyncio.ensure_future(self._answer(body)))
                await self._room.acquire()
        finally:
            self._tasks.put_nowait(None)

    def _cancel(self, task: asyncio.Future[bytes] | None) -> None:
        """Cancel the reading and all requests whose answers are not sent."""
        if self._reader is not None:
            self._reader.cancel()
        while True:
            if task is not None:
                task.cancel()
            if self._tasks.empty():
                return
            task = self._tasks.get_nowait()
