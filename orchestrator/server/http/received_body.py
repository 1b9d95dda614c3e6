"""Received bodies: the bytes of a request's body, straight into the memory of their reader."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from mmap import mmap

from .exchange import BadRequest

_CROWDED = 1 << 14
"""Bytes that may wait for a reader before the connection stops reading."""


class ReceivedBody:
    """The body of one request: a connection adds its bytes, a coroutine reads them, or they fill
    memory that is given before.
    """

    def __init__(self, length: int | None, limit: int, wanted: Callable[[], None]) -> None:
        """`wanted` is called when the coroutine waits for bytes."""
        self.length = length
        self._limit = limit
        self._wanted = wanted
        self._waiting = bytearray()
        self._left = 0 if length is None else length
        self._chunked_end = length is not None
        self._target: memoryview | None = None
        self._places: Iterator[memoryview] = iter(())
        self._filled: Callable[[], None] | None = None
        self._waiter: asyncio.Future[None] | None = None
        self._count = 0

    @property
    def complete(self) -> bool:
        """Whether all bytes have come."""
        return self._chunked_end and not self._left

    @property
    def crowded(self) -> bool:
        """Whether enough bytes wait for now."""
        read = self._waiter is not None or self._filled is not None
        return len(self._waiting) >= _CROWDED and not read

    @property
    def target(self) -> memoryview | None:
        """Where the next bytes may be received without a copy."""
        return self._target

    def received(self, count: int) -> None:
        """So many bytes were received in `target`."""
        assert self._target is not None
        self._target = self._target[count:]
        self._left -= count
        if not len(self._target):
            self._target = None
            self._wake()
            if self._filled is not None:
                self._fill_next()

    def take(self, data: memoryview) -> int:
        """Add bytes of a body of known length; how many of them belong to it."""
        data = data[: self._left]
        count = len(data)
        if not count:
            return 0
        while self._target is not None and len(data):
            direct = min(len(data), len(self._target))
            self._target[:direct] = data[:direct]
            self.received(direct)
            data = data[direct:]
        self._left -= len(data)
        self._waiting += data
        return count

    def add(self, data: bytes) -> None:
        """Add a part of a body in chunks; BadRequest beyond the limit."""
        self._count += len(data)
        if self._count > self._limit:
            raise BadRequest(413, f"the body has more than {self._limit} bytes: send less at once.")
        self._waiting += data

    def end(self) -> None:
        """A body in chunks is complete."""
        self._chunked_end = True
        self._wake()

    def fill(self, skipped: int, places: Iterator[memoryview], filled: Callable[[], None]) -> None:
        """Fill memory with all bytes behind the `skipped` ones, which are there: one place after
        the other. Calls `filled` then, maybe at once.
        """
        del self._waiting[:skipped]
        self._places, self._filled = places, filled
        self._fill_next()

    def drop(self) -> None:
        """Fill no more memory."""
        self._target = self._filled = None
        self._places = iter(())

    def give_back(self, data: bytes) -> None:
        """Have bytes that were read be read again."""
        self._waiting[:0] = data

    async def read(self, size: int) -> bytes:
        """See BodyStream."""
        self._require(size)
        if len(self._waiting) < size:
            memory = mmap(-1, size)  # takes no memory before bytes come: clients announce much
            await self.read_into(memoryview(memory))
            return memory[:]
        found = bytes(self._waiting[:size])
        del self._waiting[:size]
        return found

    async def read_rest(self) -> bytes:
        """See BodyStream."""
        if self.length is not None:
            return await self.read(len(self._waiting) + self._left)
        while not self._chunked_end:
            await self._more()
        found = bytes(self._waiting)
        self._waiting.clear()
        return found

    async def read_into(self, memory: memoryview) -> None:
        """See BodyStream."""
        self._require(len(memory))
        if self._filled_with_waiting(memory):
            return
        try:
            await self._more()
        finally:
            self._target = None

    def _fill_next(self) -> None:
        for place in self._places:
            if not self._filled_with_waiting(place):
                return
        filled = self._filled
        self.drop()
        if filled is not None:
            filled()

    def _filled_with_waiting(self, memory: memoryview) -> bool:
        """Move what waits to memory, and receive the rest there; whether there is none."""
        ready = min(len(self._waiting), len(memory))
        with memoryview(self._waiting) as waiting:
            memory[:ready] = waiting[:ready]
        del self._waiting[:ready]
        if ready == len(memory):
            return True
        self._target = memory[ready:]
        return False

    async def _more(self) -> None:
        self._waiter = asyncio.get_running_loop().create_future()
        self._wanted()
        try:
            await self._waiter
        finally:
            self._waiter = None

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def _require(self, size: int) -> None:
        have = len(self._waiting) + self._left
        if size > have:
            raise BadRequest(400, f"the body ends early: {size} bytes were announced, got {have}.")
