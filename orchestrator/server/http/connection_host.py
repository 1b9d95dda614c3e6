"""Connection host: shares a loop, limits and memory among the connections of a server."""

from __future__ import annotations

import asyncio
from collections import Counter
from enum import Enum
from typing import Protocol

from .exchange import Application, HttpResponse
from .head_reader import HeadReader
from .immediate import ImmediateApplication
from .limits import HttpLimits
from .request_head import RequestHead
from .response_head import Clock


class Phase(Enum):
    """Phases of a connection."""

    IDLE = 0
    HEAD = 1
    BODY = 2
    """The head is there, and a small body is waited for."""

    ANSWERING = 3
    LEAVING = 4


class Connection(Protocol):
    """A connection, as far as its server needs it."""

    phase: Phase
    deadline: float

    @property
    def idle(self) -> bool:
        """Whether it has no request, and nothing left of a response."""

    @property
    def awaits_client(self) -> bool:
        """Whether it can go on only once its client has sent or taken more."""

    def close_when_idle(self) -> None:
        """Close after the response that is being made, or now."""

    def abort(self) -> None:
        """Close at once; a request is cancelled."""

    def expire(self) -> None:
        """The deadline has passed: the client is too slow."""


class ConnectionHost(Protocol):
    """The part of a server that its connections share."""

    application: Application
    immediate: ImmediateApplication | None
    limits: HttpLimits
    clock: Clock
    heads: HeadReader
    loop: asyncio.AbstractEventLoop
    scratch: memoryview
    responses: Counter[int]

    def add(self, connection: Connection) -> bool:
        """Add a connection; whether there is room for it."""

    def remove(self, connection: Connection) -> None:
        """A connection is closed."""

    def require(self, head: RequestHead) -> None:
        """Raise BadRequest for a request that is too large, or for another host."""

    def note_refusal(
        self, client: str, head: RequestHead | None, response: HttpResponse | None
    ) -> None:
        """A connection has refused a request, whose head is None if it cannot be read; without a
        response the client is gone before the request has begun. With neither nothing has happened.
        """
