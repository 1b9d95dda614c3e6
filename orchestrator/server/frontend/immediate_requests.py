"""Immediate requests: those of REST that came before, past the gate and the observer."""

from __future__ import annotations

from ..access.gate import Gate
from ..access.guarded_application import REFUSALS, admit
from ..http.immediate import ImmediateRequest
from ..http.request_head import RequestHead
from ..observation.request_observer import RequestObserver
from ..rest.repeated_inference import RepeatedInference


class ImmediateRequests:
    """The requests of one server that no task has to answer. See ImmediateApplication."""

    def __init__(
        self, repeated: RepeatedInference, gate: Gate | None, observer: RequestObserver | None
    ) -> None:
        self._repeated = repeated
        self._gate = gate
        self._observer = observer

    def takes(self, head: RequestHead) -> int | None:
        """See ImmediateApplication."""
        return self._repeated.takes(head)

    def find(self, head: RequestHead, start: bytes, client: str) -> ImmediateRequest | None:
        """See ImmediateApplication. A request that the gate refuses is left to a task, which finds
        it again, and tells it. One that can begin counts here, and others there.
        """
        exchange = self._repeated.find(head, start)
        if exchange is None:
            return None
        try:
            token = None if self._gate is None else admit(self._gate, head, client)
        except REFUSALS:
            return None
        if self._observer is None:
            return exchange.request(None, None)
        record = self._observer.record_of(head, client)
        if token is not None:
            record.token = token.name
        return exchange.request(self._observer, record)
