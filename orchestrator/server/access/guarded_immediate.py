"""Guarded immediate application: begins to answer those requests that the gate lets pass."""

from __future__ import annotations

from ..http.exchange import HttpPeer
from ..http.immediate import Begin, ImmediateApplication
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

    def takes(self, head: RequestHead) -> bool:
        """See ImmediateApplication."""
        return self._inner.takes(head)

    def find(self, head: RequestHead, body: bytes, peer: HttpPeer | None) -> Begin | None:
        """See ImmediateApplication. A request counts that can begin: a task counts the others."""
        begin = self._inner.find(head, body, peer)
        if begin is None:
            return None
        try:
            admit(self._gate, head, peer)
        except REFUSALS:
            return None
        return begin
