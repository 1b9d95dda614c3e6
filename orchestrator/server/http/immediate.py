"""Immediate answers: requests that an application begins to answer without a task of its own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from .exchange import HttpPeer, HttpResponse
from .received_body import ReceivedBody
from .request_head import RequestHead

Respond = Callable[[HttpResponse | None], None]
"""Takes the response; None: the application wants to answer the request in a task."""


class Cancellable(Protocol):
    """A request that is being answered: a task, or a call that has begun."""

    def cancel(self) -> object:
        """Answer it no more."""


class ImmediateExchange(Protocol):
    """The way to answer requests that are alike. The response is given once, later, unless the
    request is cancelled.
    """

    def begin(self, body: bytes, respond: Respond) -> Cancellable:
        """Begin to answer a request, given its body."""

    def receive(self, body: ReceivedBody, respond: Respond) -> Cancellable:
        """Receive a body of which only the beginning is there, and then begin to answer it. The
        body is given back before the application wants a task.
        """


class ImmediateApplication(Protocol):
    """The part that begins to answer some requests where they are received."""

    def takes(self, head: RequestHead) -> int | None:
        """How many bytes of the body a `find` needs for requests with this head; None where they
        want a task. It is asked once for all of them.
        """

    def find(
        self, head: RequestHead, start: bytes, peer: HttpPeer | None
    ) -> ImmediateExchange | None:
        """The exchange for a request of `peer` whose body begins like this; None: it wants a
        task.
        """
