"""Prepared call: a request and its response, of which only the tensors are still to come."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain

from ....comm.arrays import Array
from ....comm.errors import Closed, Draining
from ...requests.loaded_versions import NotLoaded
from ..datatypes import datatype_of, sent_elements
from ..inference import InferenceAnswer, InferenceRequest, InferenceService
from ..tensor_shapes import client_outputs
from .infer_response import response_head
from .infer_wire import DecodedRequest, identified, output_frames

_KEPT = 64
ResponseKey = tuple[bool, tuple[tuple[int, ...], ...]]


class PreparedCall:
    """The part that all messages with equal bytes around their raw contents have in common."""

    def __init__(
        self, service: InferenceService, decoded: DecodedRequest, request: InferenceRequest
    ) -> None:
        """`request` is that of a message whose tensors are all raw, like those of its response.

        Raises InputError, NotLoaded.
        """
        names = [one.name for one in decoded.message.inputs]
        shapes = {one.name: tuple(one.shape) for one in decoded.message.inputs}
        starts = dict(zip(names, decoded.starts, strict=True))
        self._service = service
        self._inference = service.prepare(request, shapes, starts)
        self._around = decoded.around()
        self._frames: dict[ResponseKey, list[bytes]] = {}
        """By whether it is the final one, and by the shapes of the outputs: the bytes of a response
        before each tensor.
        """

    @property
    def current(self) -> bool:
        """Whether it still holds: each change of the models ends it."""
        return self._service.current(self._inference)

    def fits(self, body: bytes) -> bool:
        """Whether a message, which is as long, has the same bytes around its raw contents."""
        for start, part in self._around:
            if not body.startswith(part, start):
                return False
        return True

    async def answer(self, body: bytes, name: str, left: float | None, final: bool) -> bytes | None:
        """The response to a message that fits, which has so many seconds `left`; `name` is that of
        its call, for one without an id. None where its version is being unloaded.
        """
        try:
            outputs = await self._service.repeat(self._inference, memoryview(body), left)
        except (NotLoaded, Draining, Closed):
            return None
        shapes = tuple([array.shape for array in outputs])
        frames = self._frames.get((final, shapes)) or self._note_frames((final, shapes), outputs)
        encoded = b"".join(chain(*zip(frames, map(sent_elements, outputs), strict=True)))
        return identified(encoded, name) if name else encoded

    def _note_frames(self, key: ResponseKey, outputs: Sequence[Array]) -> list[bytes]:
        inference = self._inference
        found = dict(zip(inference.outputs, outputs, strict=True))
        named = client_outputs(inference.model, found)
        answer = InferenceAnswer(inference.model, "", named)
        head = response_head(answer, final=key[0])
        for name, array in named.items():
            head.outputs.add(name=name, datatype=datatype_of(array.dtype), shape=array.shape)
        if len(self._frames) >= _KEPT:
            self._frames.clear()
        self._frames[key] = frames = output_frames(head, [one.nbytes for one in outputs])
        return frames
