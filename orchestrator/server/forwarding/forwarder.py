"""Forwarder: the way from a server process to the process of the orchestrator."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from ..http.exchange import HttpResponse


class Forwarder(Protocol):
    """The way to the process of the orchestrator."""

    async def page(
        self, method: str, path: Sequence[str], headers: Mapping[bytes, bytes], body: bytes
    ) -> HttpResponse:
        """The response of that process to a request of HTTP."""

    async def call(self, name: str, body: bytes) -> bytes:
        """The answer of that process to a call of gRPC. Raises ForwardedFault."""
