"""Loop caller: requests of an asyncio loop, whose answers the loop takes itself."""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Protocol

from ...comm.serving.caller_slots import NO_SLOT, CallerSlots
from ..requests.inputs import Buffers, PackedInputs
from ..requests.request import AnyResult, Request, Result
from ..requests.request_inputs import Inputs
from .request_client import GivenInputs, RequestClient

MODELS_OWN = -1
"""The timeout that leaves it to the model."""

_NO_THREAD = 0


class ClientTable(Protocol):
    """The models of an orchestrator, as far as a caller needs them."""

    def client(self, model: str | None, version: int | None = None) -> RequestClient:
        """The client of a model, None: of its current version. Raises UsageError."""

    def clients(self) -> Iterable[RequestClient]:
        """All clients that may have answers."""


class RequestDropper(Protocol):
    """Drops requests to one model."""

    def abandon(self, request: Request) -> None:
        """Drop a request: its caller waits no more."""


class EndedRequests(Protocol):
    """Takes the requests of one event loop that have ended."""

    def note(self, request: LoopRequest) -> None:
        """A request has ended: it is told in the loop."""


class LoopRequest(Request):
    """One request of an event loop, which is told in the loop when it has ended."""

    awake = True
    client: RequestDropper
    caller: EndedRequests
    ended: Callable[[Request], None] | None = None
    """Is called with the request at its end, however that was, by the one that waits for it."""

    def tell(self) -> None:
        """The request has ended; raises nothing."""
        raise NotImplementedError

    def set_result(self, result: AnyResult) -> None:
        """See Request.set_result."""
        super().set_result(result)
        self.caller.note(self)

    def set_exception(self, error: BaseException) -> None:
        """See Request.set_exception."""
        super().set_exception(error)
        self.caller.note(self)

    def cancel(self) -> None:
        """Drop the request; it is told no more, unless it has ended already."""
        self.client.abandon(self)


class AwaitedRequest(LoopRequest):
    """One request that a coroutine waits for."""

    def __init__(self, loop: asyncio.AbstractEventLoop, placed: bool = False) -> None:
        self._waiter: asyncio.Future[None] = loop.create_future()
        self.placed = placed

    def tell(self) -> None:
        """See LoopRequest.tell."""
        if not self._waiter.done():
            self._waiter.set_result(None)

    async def wait(self) -> None:
        """Wait until the request, which was begun, has ended; it is cancelled with the
        coroutine.
        """
        try:
            await self._waiter
        except asyncio.CancelledError:
            self.cancel()
            raise
        finally:
            if self.ended is not None:
                self.ended(self)


class LoopClient:
    """Requests of one loop to one model, whose inputs come as bytes of messages that are alike."""

    def __init__(self, caller: LoopCaller, client: RequestClient) -> None:
        self._caller, self._client = caller, client

    def packed(
        self, shapes: Mapping[str, tuple[int, ...]], starts: Mapping[str, int]
    ) -> PackedInputs:
        """See InputSpecs.packed."""
        return self._client.interface.inputs.packed(shapes, starts)

    def begin(
        self, request: LoopRequest, inputs: Inputs, timeout: float | None, priority: int
    ) -> None:
        """See LoopCaller.begin."""
        self._caller.begin(request, self._client, inputs, timeout, priority)


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

        self._done: deque[LoopRequest] = deque()
        self._announced = False
        self._slot = slots.take()
        if self._slot != NO_SLOT:
            loop.add_reader(slots.watch(self._slot), self._collect)
            slots.coalesce(self._slot, loop.call_soon)

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
        request = AwaitedRequest(self._loop)
        await self.wait(request, client, given, timeout, priority, ended)
        return request.result()

    async def wait(
        self,
        request: AwaitedRequest,
        client: RequestClient,
        given: GivenInputs | Inputs,
        timeout: float | None,
        priority: int,
        ended: Callable[[Request], None] | None = None,
    ) -> None:
        """Begin a request to the model of a client, and wait until it has ended; see `call`."""
        request.ended = ended
        self.begin(request, client, given, timeout, priority)
        await request.wait()

    def begin(
        self,
        request: LoopRequest,
        client: RequestClient,
        given: GivenInputs | Inputs,
        timeout: float | None,
        priority: int,
    ) -> None:
        """Begin a request, like `call`. It is told after this has returned.

        Raises InputError, QueueFull, Draining and Closed.
        """
        request.client, request.caller = client, self
        seconds = client.timeout if timeout == MODELS_OWN else timeout
        client.submit_at(self._slot, request, given, seconds, priority)

    def client(self, model: str, version: int | None) -> LoopClient:
        """The client of a model, for requests that are alike. Raises UsageError."""
        return LoopClient(self, self._clients.client(model, version))

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

    def note(self, request: LoopRequest) -> None:
        """A request has ended: tell it at once where the loop has just taken its answer, else soon;
        in any thread.
        """
        thread = threading.get_ident()
        if self._collecting == thread:
            request.tell()
            return
        self._done.append(request)
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
            self._done.popleft().tell()
