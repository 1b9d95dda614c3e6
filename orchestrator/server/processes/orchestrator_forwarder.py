"""Orchestrator forwarder: sends requests to the process of the orchestrator, and awaits answers."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Mapping, Sequence

from ..faults import ForwardedFault
from ..http.exchange import HttpResponse
from .messages import Abandon, CallAnswer, ForwardedCall, FromProcess, Page, PageAnswer

Answer = PageAnswer | CallAnswer


class OrchestratorForwarder:
    """The way from one server process. See Forwarder."""

    def __init__(self, send: Callable[[FromProcess], None]) -> None:
        self._send = send
        self._numbers = itertools.count(1)
        self._waiters: dict[int, asyncio.Future[Answer]] = {}

    async def page(
        self, method: str, path: Sequence[str], headers: Mapping[bytes, bytes], body: bytes
    ) -> HttpResponse:
        """See Forwarder."""
        number = next(self._numbers)
        asked = Page(number, method, list(path), list(headers.items()), body)
        answer = await self._answer(number, asked)
        assert isinstance(answer, PageAnswer)
        return HttpResponse(answer.status, (answer.body,), answer.headers)

    async def call(self, name: str, body: bytes) -> bytes:
        """See Forwarder."""
        number = next(self._numbers)
        answer = await self._answer(number, ForwardedCall(number, name, body))
        assert isinstance(answer, CallAnswer)
        if answer.fault is not None:
            raise ForwardedFault(answer.fault)
        return answer.body

    def take(self, answer: Answer) -> None:
        """An answer has come."""
        waiter = self._waiters.get(answer.number)
        if waiter is not None and not waiter.done():
            waiter.set_result(answer)

    async def _answer(self, number: int, asked: Page | ForwardedCall) -> Answer:
        waiter: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self._waiters[number] = waiter
        self._send(asked)
        try:
            return await waiter
        except asyncio.CancelledError:
            self._send(Abandon(number))
            raise
        finally:
            del self._waiters[number]
