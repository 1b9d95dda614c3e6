"""Reply: holds the answer to a request, or tells why there is none."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from ....comm.arrays import Array


class RequestFailed(Exception):
    """A request without an answer: `kind` is the class of the error, the text its sentence."""

    def __init__(self, kind: str, text: str) -> None:
        super().__init__(text)
        self.kind = kind


class HttpReply(NamedTuple):
    """One response; `head` is the length of its JSON document, -1 where nothing follows it."""

    status: int
    head: int
    body: bytes


Reply = HttpReply | bytes | Mapping[str, Array]
"""A response of HTTP, a message of gRPC, or the outputs themselves by name."""
