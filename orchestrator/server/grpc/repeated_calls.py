"""Repeated calls: finds the prepared call of a message by the bytes around its raw contents.

They tell the model, the places of the inputs, and all of the response but its tensors: no protobuf
is read or made.
"""

from __future__ import annotations

from contextlib import suppress

from ....comm.errors import RankmeshError
from ..inference import InferenceRequest, InferenceService
from .infer_wire import DecodedRequest
from .prepared_call import PreparedCall

_KEPT = 256
_ALIKE = 8
"""Messages of one length that are kept: each one that comes is compared with them."""

_SMALL = 1 << 20
"""Bytes of a message that are copied to the ranks' memory while no other thread runs."""

_AROUND = 1 << 13
"""Bytes around the raw contents of a message that is kept: as many as clients put there."""


class RepeatedCalls:
    """The messages of one server that came before."""

    def __init__(self) -> None:
        self._kept: dict[int, list[PreparedCall]] = {}
        """By the length of their messages."""

        self._count = 0

    def find(self, body: bytes) -> PreparedCall | None:
        """The call that is prepared for a message; None where it came in no such form before."""
        for one in self._kept.get(len(body), ()):
            if one.fits(body):
                return one
        return None

    def note(
        self, service: InferenceService, decoded: DecodedRequest, request: InferenceRequest
    ) -> None:
        """Keep a message that was answered by a response with raw outputs only."""
        message, size = decoded.message, len(decoded.body)
        whole = len(decoded.starts) == len(message.inputs) > 0
        if message.id or not whole or size > _SMALL:  # few clients use an id again
            return
        if size - sum(map(len, decoded.raw)) > _AROUND:
            return
        if request.model.has_strings:  # of no fixed size
            return
        with suppress(RankmeshError):  # the next one finds it again, and tells it
            self._keep(size, PreparedCall(service, decoded, request))

    def _keep(self, size: int, call: PreparedCall) -> None:
        if self._count >= _KEPT:
            self._kept.clear()
            self._count = 0
        alike = [one for one in self._kept.get(size, ()) if one.current]
        self._count += 1
        self._kept[size] = [*alike[1 - _ALIKE :], call]
