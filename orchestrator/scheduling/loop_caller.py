"""Loop caller: requests of an asyncio loop, whose answers the loop takes itself."""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Mapping
from contextlib import suppress
from functools import partial

from ...comm.serving.caller_slots import NO_SLOT, CallerSlots
from ..requests.request import Result
from .client import GivenInputs, ModelClient

MODELS_OWN = -1
"""The timeout that leaves it to the model."""


class LoopCaller:
    """Requests to the models of an orchestrator, from one asyncio loop.

    Ranks notify the loop itself, at a caller slot: no thread stands between. Without a free slot
    the orchestrator's thread takes the answers.
    """

    def __init__(
        self,
        clients: Mapping[str, ModelClient],
        slots: CallerSlots,
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        """In the thread of the loop; `clients` are by model."""
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
        self, model: str, given: GivenInputs, timeout: float | None, priority: int
    ) -> Result:
        """The result of a request; `timeout` is in seconds, MODELS_OWN leaves it to the model.

        The request is cancelled with the coroutine. Raises what `predict` raises.
        """
        client = self._clients[model]
        seconds = client.timeout if timeout == MODELS_OWN else timeout
        waiter = self._loop.create_future()
        done = partial(self._announce, waiter)
        request, outcome = client.submit_at(self._slot, done, given, seconds, priority)
        try:
            await waiter
        except asyncio.CancelledError:
            client.abandon(request)
            raise
        return outcome.result()

    def close(self) -> None:
        """Give the slot back; for a loop that has no request under way."""
        if self._slot != NO_SLOT:
            self._loop.remove_reader(self._slots.watch(self._slot))
            self._slots.leave(self._slot)
            self._slot = NO_SLOT

    def _collect(self) -> None:
        """Take the answers of the ranks, which have notified the slot."""
        self._slots.acknowledge(self._slot)
        for client in self._clients.values():
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
