"""Prepared call: a request and its response, of which only the tensors are still to come."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from itertools import chain

from ....comm.errors import Closed, Draining
from ...requests.loaded_versions import NotLoaded
from ...requests.request import AnyResult
from ..datatypes import datatype_of
from ..inference import InferenceAnswer, InferenceRequest, InferenceService
from ..sent_outputs import sent_outputs, wanted_arrays
from ..tensor_shapes import client_outputs
from .infer_response import response_head
from .infer_wire import DecodedRequest, identified, output_frames

_KEPT = 64
ResponseKey = tuple[bool, object]


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
        self._versions = service.versions
        self._inference = service.prepare(request, shapes, starts)
        self.loaded = self._inference.loaded
        """The versions of the models that it was prepared for."""

        self._around = decoded.around()
        self._frames: dict[ResponseKey, list[bytes]] = {}
        """By whether it is the final one, and by the form of the outputs: the bytes of a response
        before each tensor.
        """

    def fits(self, body: bytes) -> bool:
        """Whether a message, which is as long, has the same bytes around its raw contents, and no
        model has changed since.
        """
        if self.loaded is not self._versions():
            return False
        for start, part in self._around:
            if not body.startswith(part, start):
                return False
        return True

    async def answer(
        self,
        body: bytes,
        name: str,
        left: float | None,
        final: bool,
        otherwise: Callable[[], Awaitable[bytes]],
    ) -> bytes:
        """The response to a message that fits, which has so many seconds `left`; `name` is that of
        its call, for one without an id. That of `otherwise` where its version is being unloaded.
        """
        try:
            request = self._service.repeat(self._inference, memoryview(body), left)
            await request.wait()
            found = request.any_result()
        except (NotLoaded, Draining, Closed):
            return await otherwise()
        form, elements = sent_outputs(found, self._inference.outputs)
        key = final, form
        frames = self._frames.get(key) or self._note_frames(key, found)
        encoded = b"".join(chain(*zip(frames, elements, strict=True)))
        return identified(encoded, name) if name else encoded

    def _note_frames(self, key: ResponseKey, found: AnyResult) -> list[bytes]:
        inference = self._inference
        outputs = wanted_arrays(found, inference.outputs)
        named = client_outputs(inference.model, outputs)
        answer = InferenceAnswer(inference.model, "", named)
        head = response_head(answer, final=key[0])
        for name, array in named.items():
            head.outputs.add(name=name, datatype=datatype_of(array.dtype), shape=array.shape)
        if len(self._frames) >= _KEPT:
            self._frames.clear()
        sizes = [array.nbytes for array in outputs.values()]
        self._frames[key] = frames = output_frames(head, sizes)
        return frames
