"""Forwarded requests: those that server processes leave to the process of the orchestrator."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from typing import TYPE_CHECKING, Protocol

from ..faults import fault_of
from ..http.exchange import Application, BadRequest, HttpRequest
from .messages import (
    Abandon,
    CallAnswer,
    ForwardedCall,
    FromProcess,
    Page,
    PageAnswer,
    ToProcess,
)

if TYPE_CHECKING:
    from ..grpc.calls import CallHandler

_CHANGING_PATHS = ("v2", "repository", "models")
_CHANGING_CALLS = ("RepositoryModelLoad", "RepositoryModelUnload")


class Asker(Protocol):
    """A process that forwards requests."""

    def send(self, message: ToProcess) -> None:
        """Send it a message."""


class ForwardedRequests:
    """Answers them, each in a task of its own."""

    def __init__(
        self,
        pages: Application,
        calls: Mapping[str, CallHandler],
        changed: Callable[[], None],
    ) -> None:
        """`pages` answers those of HTTP, and `calls` those of gRPC; `changed` is called before the
        client hears that a model is loaded or unloaded.
        """
        self._pages = pages
        self._calls = calls
        self._changed = changed
        self._tasks: dict[tuple[Asker, int], asyncio.Task[None]] = {}

    def take(self, process: Asker, message: FromProcess) -> None:
        """Answer a message, or cancel what is answered."""
        match message:
            case Page(number):
                self._begin(process, number, self._page(process, message))
            case ForwardedCall(number):
                self._begin(process, number, self._call(process, message))
            case Abandon(number):
                task = self._tasks.get((process, number))
                if task is not None:
                    task.cancel()

    def abandon(self, process: Asker) -> None:
        """A process has ended: its requests are cancelled."""
        for (asker, _), task in list(self._tasks.items()):
            if asker is process:
                task.cancel()

    def close(self) -> None:
        """Cancel all of them."""
        for task in self._tasks.values():
            task.cancel()

    def _begin(self, process: Asker, number: int, work: Coroutine[None, None, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks[process, number] = task
        task.add_done_callback(lambda _: self._tasks.pop((process, number), None))

    async def _page(self, process: Asker, page: Page) -> None:
        request = HttpRequest(page.method, page.path, dict(page.headers), ReceivedBytes(page.body))
        response = await self._pages.answer(request)
        body = b"".join(response.parts)
        if tuple(page.path[:3]) == _CHANGING_PATHS:
            self._changed()
        process.send(PageAnswer(page.number, response.status, list(response.headers), body))

    async def _call(self, process: Asker, call: ForwardedCall) -> None:
        from ..grpc.forwarded_calls import answer_forwarded  # here: few servers have gRPC

        try:
            answer = await answer_forwarded(self._calls, call.name, call.body)
        except Exception as error:  # of any class: the other process tells its client
            process.send(CallAnswer(call.number, b"", fault_of(error)))
        else:
            if call.name in _CHANGING_CALLS:
                self._changed()
            process.send(CallAnswer(call.number, answer))


class ReceivedBytes:
    """A body that is there. See BodyStream."""

    def __init__(self, content: bytes) -> None:
        self._content = content
        self._at = 0

    @property
    def length(self) -> int:
        """See BodyStream."""
        return len(self._content)

    async def read(self, size: int) -> bytes:
        """See BodyStream."""
        found = self._content[self._at : self._at + size]
        if len(found) < size:
            raise BadRequest(400, "the body ends before its tensors.")
        self._at += size
        return found

    async def read_rest(self) -> bytes:
        """See BodyStream."""
        found = self._content[self._at :]
        self._at = len(self._content)
        return found

    async def read_into(self, memory: memoryview) -> None:
        """See BodyStream."""
        memory[:] = await self.read(len(memory))
