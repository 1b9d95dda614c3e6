"""Request heads: the first line and the headers of an HTTP/1.1 request."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, eq=False)
class RequestHead:
    """A request without its body, of which it tells the `length`; None: it comes in chunks.

    Equal is only the same object, so that what is known of a head is found without comparing it.
    """

    method: str
    path: Sequence[str]
    headers: Mapping[bytes, bytes]
    length: int | None
    keep_alive: bool
    immediate: int | None = None
    """Where requests with these bytes, which all have this object as their head, may be begun
    without a task: how many bytes of the body tell that.
    """
