"""Record of one request: collects what the access log tells of it."""

from __future__ import annotations

import time
from contextvars import ContextVar
from dataclasses import dataclass, field

CLOSED_BY_CLIENT = "499"
"""The status of a request whose client went away, as nginx has it."""


@dataclass(slots=True)
class RequestRecord:
    """One request; `id` is that of its message, or of its header, or made."""

    client: str
    method: str
    path: str
    id: str
    bytes_in: int | None = None
    bytes_out: int = 0
    token: str = ""
    model: str = ""
    status: str = CLOSED_BY_CLIENT
    began: float = field(default_factory=time.monotonic)


CURRENT: ContextVar[RequestRecord | None] = ContextVar("rankmesh_request", default=None)
"""The record of the request that a task answers; None where there is no log."""
