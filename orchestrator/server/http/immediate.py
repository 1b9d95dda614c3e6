"""Immediate answers: requests that an application begins to answer without a task of its own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from .exchange import HttpResponse
from .request_head import RequestHead

Respond = Callable[[HttpResponse | None], None]
"""Takes the response; None: the application wants to answer the request in a task."""


class Cancellable(Protocol):
    """A request that is being answered: a task, or a call that has begun."""

    def cancel(self) -> object:
        """Answer it no more."""


class ImmediateApplication(Protocol):
    """The part that begins to answer some requests where they are received."""

    def takes(self, head: RequestHead) -> bool:
        """Whether requests with this head, whose bodies are small, are worth a `begin`."""

    def begin(self, head: RequestHead, body: bytes, respond: Respond) -> Cancellable | None:
        """Begin to answer a request; None: it wants a task.

        `respond` is called once, later, unless the request is cancelled.
        """
