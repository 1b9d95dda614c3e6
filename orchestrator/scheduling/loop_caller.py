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
from ..requests.request import CallOutcome, Request, Result
from ..requests.request_inputs import Inputs
from .request_client import GivenInputs, RequestClient

MODELS_OWN = -1
"""The timeout that leaves it to the model."""

Tell = Callable[[CallOutcome], None]
_NO_THREAD = 0


class ClientTable(Protocol):
    """The models of an orchestrator, as far as a caller needs them."""

    def client(self, model: str | None, version: int | None = None) -> RequestClient:
        """The client of a model, None: of its current version. Raises UsageError."""

    def clients(self) -> Iterable[RequestClient]:
        """All clients that may have answers."""


class BegunCall:
    """A request that has begun."""

    __slots__ = ("_client", "request")

    def __init__(self, client: RequestClient, request: Request) -> None:
        self._client = client
        self.request = request

    def cancel(self) -> None:
        """Drop the request; its outcome is told no more, unless it is there already."""
        self._client.abandon(self.request)


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
        self._collecting = _NO_THREAD
        """The thread of the loop while it takes answers."""

        self._done: deque[tuple[Tell, CallOutcome]] = deque()
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
        return await self.result(client, given, timeout, priority, ended)

    async def result(
        self,
        client: RequestClient,
        given: GivenInputs | Inputs,
        timeout: float | None,
        priority: int,
        ended: Callable[[Request], None] | None = None,
    ) -> Result:
        """The result of a request to the model of a client; see `call`."""
        waiter: asyncio.Future[CallOutcome] = self._loop.create_future()
        call = self.begin(client, given, timeout, priority, partial(_set, waiter))
        try:
            outcome = await waiter
        except asyncio.CancelledError:
            call.cancel()
            raise
        finally:
            if ended is not None:
                ended(call.request)
        return outcome.result()

    def begin(
        self,
        client: RequestClient,
        given: GivenInputs | Inputs,
        timeout: float | None,
        priority: int,
        tell: Tell,
    ) -> BegunCall:
        """Begin a request, like `call`.

        `tell` is given its outcome, in the loop and after this has returned, and raises nothing.
        Raises InputError, QueueFull, Draining and Closed.
        """
        seconds = client.timeout if timeout == MODELS_OWN else timeout
        note = partial(self._note, tell)
        return BegunCall(client, client.submit_at(self._slot, note, given, seconds, priority))

    def client(self, model: str, version: int | None) -> RequestClient:
        """The client of a model, for `begin` and `result`. Raises UsageError."""
        return self._clients.client(model, version)

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
        self._collecting = self._thread
        try:
            for client in self._clients.clients():
                client.collect_at(self._slot)
        finally:
            self._collecting = _NO_THREAD

    def _note(self, tell: Tell, outcome: CallOutcome) -> None:
        """An outcome is there: tell it at once where the loop has just taken it, else soon; in any
        thread.
        """
        thread = threading.get_ident()
        if self._collecting == thread:
            tell(outcome)
            return
        self._done.append((tell, outcome))
        if self._announced:
            return
        self._announced = True
        if thread == self._thread:
            self._loop.call_soon(self._tell)
            return
        with suppress(RuntimeError):  # the loop is closed, and no coroutine waits any more
            self._loop.call_soon_threadsafe(self._tell)

    def _tell(self) -> None:
        self._announced = False  # first: what is added from here on announces itself
        while self._done:
            tell, outcome = self._done.popleft()
            tell(outcome)


def _set(waiter: asyncio.Future[CallOutcome], outcome: CallOutcome) -> None:
    if not waiter.done():
        waiter.set_result(outcome)
