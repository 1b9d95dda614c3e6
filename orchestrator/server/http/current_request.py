"""Current request of a connection: received or answered now, by a task or without one."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from .exchange import HttpRequest, HttpResponse
from .immediate import ImmediateRequest
from .request_head import RequestHead


@dataclass(slots=True)
class CurrentRequest:
    """One request, from its head to its response."""

    head: RequestHead
    request: HttpRequest | None = None
    """The form in which a task answers it."""

    task: asyncio.Task[None] | None = None
    immediate: ImmediateRequest | None = None
    """The part of the application that answers it in place of a task."""

    start: bytes = b""
    """The body of an immediate request that is not received as a ReceivedBody."""

    def end(self, refusal: HttpResponse | None) -> bool:
        """Cancel it, as its client is gone, or gets this response of the connection; whether the
        observer, if there is one, is told by what is cancelled.
        """
        if self.request is not None:
            self.request.refusal = refusal
        if self.task is not None:
            self.task.cancel()
        if self.immediate is not None:
            self.immediate.cancel(refusal)
        return self.immediate is not None or self.request is not None and self.request.observed
