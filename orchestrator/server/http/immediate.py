"""Immediate answers: requests that an application begins to answer without a task of its own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from .exchange import HttpResponse
from .received_body import ReceivedBody
from .request_head import RequestHead

Respond = Callable[[HttpResponse | None], None]
"""Takes the response; None: the application wants to answer the request in a task."""


class ImmediateRequest(Protocol):
    """One request that needs no task. The response is given once, later, unless the request is
    cancelled.
    """

    def begin(self, body: bytes, respond: Respond) -> None:
        """Begin to answer it, given its body."""

    def receive(self, body: ReceivedBody, respond: Respond) -> None:
        """Receive a body of which only the beginning is there, and then begin to answer it. The
        body is given back before the application wants a task.
        """

    def cancel(self, refusal: HttpResponse | None = None) -> None:
        """Answer it no more: its client is gone, or gets this response of the connection."""


class ImmediateApplication(Protocol):
    """The part that begins to answer some requests where they are received."""

    def takes(self, head: RequestHead) -> int | None:
        """How many bytes of the body a `find` needs for requests with this head; None where they
        want a task. It is asked once for all of them.
        """

    def find(self, head: RequestHead, start: bytes, client: str) -> ImmediateRequest | None:
        """The request of a client, by its address, whose body begins like this. It is not begun
        yet; None: it wants a task.
        """
