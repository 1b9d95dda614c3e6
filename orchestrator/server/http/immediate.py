"""Immediate answers: requests that an application begins to answer without a task of its own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from .exchange import HttpPeer, HttpResponse
from .request_head import RequestHead

Respond = Callable[[HttpResponse | None], None]
"""Takes the response; None: the application wants to answer the request in a task."""


class Cancellable(Protocol):
    """A request that is being answered: a task, or a call that has begun."""

    def cancel(self) -> object:
        """Answer it no more."""


Begin = Callable[[bytes, Respond], Cancellable]
"""Begins to answer a request, given its body. The response is given once, later, unless the request
is cancelled.
"""


class ImmediateApplication(Protocol):
    """The part that begins to answer some requests where they are received."""

    def takes(self, head: RequestHead) -> bool:
        """Whether requests with this head, whose bodies are small, are worth a `find`; it is asked
        once for all of them.
        """

    def find(self, head: RequestHead, body: bytes, peer: HttpPeer | None) -> Begin | None:
        """The way to begin to answer a request of `peer`; None: it wants a task."""
