"""Loop caller: requests of an asyncio loop, whose answers the loop takes itself."""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Protocol

from ...comm.serving.caller_slots import NO_SLOT, CallerSlots
from ..requests.inputs import Buffers
from ..requests.request import Request, Result
from .client import GivenInputs, ModelClient

MODELS_OWN = -1
"""The timeout that leaves it to the model."""


class ClientTable(Protocol):
    """The models of an orchestrator, as far as a caller needs them."""

    def client(self, model: str | None, version: int | None = None) -> ModelClient:
        """The client of a model, None: of its current version. Raises UsageError."""

    def clients(self) -> Iterable[ModelClient]:
        """All clients that may have answers."""


class LoopCaller:
    """Requests to the models of an orchestrator, from one asyncio loop.

    Ranks notify the loop itself, at a caller slot: no thread stands between. Without a free slot
    the orchestrator's thread takes the answers.
    """

    def __init__(
        self,
        clients: ClientTable,
        slots: CallerSlots,
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        """In the thread of the loop."""
        self._clients = clients
        self._slots = slots
        self._loop = loop
        self._thread = threading.get_ident()
        self._done: deque[asyncio.Future[None]] = deque()
        self._announced = False
        self._slot = slots.take()
        if self._slot != NO_SLOT:
            loop.add_reader(slots.watch(self._slot), self._collect)

    async def call(
        self,
        model: str,
        given: GivenInputs,
        timeout: float | None,
        priority: int,
        version: int | None = None,
        ended: Callable[[Request], None] | None = None,
    ) -> Result:
        """The result of a request; `timeout` is in seconds, MODELS_OWN leaves it to the model.
        `ended` is called with the request at its end, however that was.

        The request is cancelled with the coroutine. Raises what `predict` raises; Draining or
        Closed also where this version of the model is being unloaded.
        """
        client = self._clients.client(model, version)
        seconds = client.timeout if timeout == MODELS_OWN else timeout
        waiter = self._loop.create_future()
        done = partial(self._announce, waiter)
        request, outcome = client.submit_at(self._slot, done, given, seconds, priority)
        try:
            await waiter
        except asyncio.CancelledError:
            client.abandon(request)
            raise
        finally:
            if ended is not None:
                ended(request)
        return outcome.result()

    async def buffers(
        self, model: str, version: int | None, shapes: Mapping[str, Sequence[int]]
    ) -> Buffers:
        """Memory that ranks read, for the inputs of one request. Raises OutOfMemory."""
        return self._clients.client(model, version).buffers(shapes)

    def close(self) -> None:
        """Give the slot back; for a loop that has no request under way."""
        if self._slot != NO_SLOT:
            self._loop.remove_reader(self._slots.watch(self._slot))
            self._slots.leave(self._slot)
            self._slot = NO_SLOT

    def _collect(self) -> None:
        """Take the answers of the ranks, which have notified the slot."""
        self._slots.acknowledge(self._slot)
        for client in self._clients.clients():
            client.collect_at(self._slot)

    def _announce(self, waiter: asyncio.Future[None]) -> None:
        """Note that an outcome is there; in any thread."""
        self._done.append(waiter)
        if self._announced:
            return
        self._announced = True
        if threading.get_ident() == self._thread:
            self._loop.call_soon(self._wake)
            return
        with suppress(RuntimeError):  # the loop is closed, and no coroutine waits any more
            self._loop.call_soon_threadsafe(self._wake)

    def _wake(self) -> None:
        self._announced = False  # first: what is added from here on announces itself
        while self._done:
            waiter = self._done.popleft()
            if not waiter.done():
                waiter.set_result(None)
