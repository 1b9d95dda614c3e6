"""Guarded immediate application: begins to answer those requests that the gate lets pass."""

from __future__ import annotations

from ..http.exchange import HttpPeer
from ..http.immediate import ImmediateApplication, ImmediateExchange
from ..http.request_head import RequestHead
from .gate import Gate
from .guarded_application import REFUSALS, admit


class GuardedImmediate:
    """An immediate application behind a gate. A request that the gate refuses is left to a task,
    which finds it again, and tells it.
    """

    def __init__(self, inner: ImmediateApplication, gate: Gate) -> None:
        self._inner = inner
        self._gate = gate

    def takes(self, head: RequestHead) -> int | None:
        """See ImmediateApplication."""
        return self._inner.takes(head)

    def find(
        self, head: RequestHead, start: bytes, peer: HttpPeer | None
    ) -> ImmediateExchange | None:
        """See ImmediateApplication. A request counts that can begin: a task counts the others."""
        exchange = self._inner.find(head, start, peer)
        if exchange is None:
            return None
        try:
            admit(self._gate, head, peer)
        except REFUSALS:
            return None
        return exchange
