"""Prepared call: a prepared request of gRPC, by the bytes around the tensors of its messages."""

from __future__ import annotations

from itertools import chain

from ...scheduling.loop_caller import LoopRequest
from ..datatypes import datatype_of
from ..inference import InferenceAnswer, InferenceRequest, InferenceService
from ..repeated.prepared_request import PreparedRequest
from .infer_response import response_head
from .infer_wire import DecodedRequest, output_frames


class PreparedCall(PreparedRequest[list[bytes]]):
    """The part that all messages with equal bytes around their raw contents have in common. It
    keeps the bytes of a response before each tensor.
    """

    def __init__(
        self, service: InferenceService, decoded: DecodedRequest, request: InferenceRequest
    ) -> None:
        """`request` is that of a message whose tensors are all raw, like those of its response.

        Raises InputError, NotLoaded.
        """
        names = [one.name for one in decoded.message.inputs]
        shapes = {one.name: tuple(one.shape) for one in decoded.message.inputs}
        starts = dict(zip(names, decoded.starts, strict=True))
        super().__init__(service, request, shapes, starts)
        self._around = decoded.around()

    def fits(self, body: bytes) -> bool:
        """Whether a message, which is as long, has the same bytes around its raw contents, and no
        model has changed since.
        """
        if not self.current:
            return False
        for start, part in self._around:
            if not body.startswith(part, start):
                return False
        return True

    def response(self, request: LoopRequest) -> bytes:
        """The response to a request that has ended, without an id. Raises its error."""
        frames, elements = self.outputs_of(request)
        return b"".join(chain(*zip(frames, elements, strict=True)))

    def _head_of(self, answer: InferenceAnswer) -> list[bytes]:
        """See PreparedRequest."""
        head = response_head(answer)
        for name, array in answer.outputs.items():
            head.outputs.add(name=name, datatype=datatype_of(array.dtype), shape=array.shape)
        return output_frames(head, [array.nbytes for array in answer.outputs.values()])
