"""Prepared request: a request and its response, of which only the tensors are still to come.

Most clients send one request again and again with other tensors. Their common part is read and
checked once. Each protocol finds the prepared request of a message by the bytes around its
tensors, and has a subclass that knows the bytes of a response. The rest is the same for all: the
inputs go to ranks as they come, the outputs are bytes from where ranks wrote them, and the record
of an observed request is told of both.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Generic, TypeVar

from ....comm.errors import Closed, Draining
from ...requests.inputs import NoRoomYet
from ...requests.loaded_versions import NotLoaded
from ...requests.request import AnyResult
from ...requests.request_inputs import Inputs
from ...scheduling.loop_caller import LoopRequest
from ..inference import InferenceAnswer, InferenceRequest, InferenceService
from ..observation.record import RequestRecord
from ..tensor_shapes import client_outputs
from .sent_outputs import Elements, sent_outputs, wanted_arrays

_KEPT = 64

UNFIT = (NotLoaded, Draining, Closed, NoRoomYet)
"""Errors after which a request is read as one that never came before: its version is being
unloaded, and there may be another one, or it has to wait for memory.
"""

HeadT = TypeVar("HeadT")
"""The part of a protocol's responses that all of them with outputs of one form have in common."""


class PreparedRequest(ABC, Generic[HeadT]):
    """The part that requests have in common which are alike in all but their tensors."""

    def __init__(
        self,
        service: InferenceService,
        request: InferenceRequest,
        shapes: Mapping[str, tuple[int, ...]],
        starts: Mapping[str, int],
    ) -> None:
        """`request` is one of them, whose inputs do not count: they have these `shapes`, and begin
        in their messages at these `starts`. Raises InputError, NotLoaded.
        """
        self._service = service
        self._versions = service.versions
        self.inference = service.prepare(request, shapes, starts)
        self._heads: dict[object, HeadT] = {}
        """By the form of the outputs."""

    @property
    def current(self) -> bool:
        """Whether it still holds: each change of the models ends it."""
        return self.inference.loaded is self._versions()

    def begin(
        self,
        request: LoopRequest,
        inputs: Inputs,
        record: RequestRecord | None,
        left: float | None = None,
    ) -> None:
        """Begin a request with its inputs, which has so many seconds `left` (None: no such limit).
        The record of an observed one is told of its end. Raises what InferenceService.begin raises.
        """
        if record is not None:
            model = self.inference.model
            record.model, record.version = model.name, model.version
        self._service.begin(request, self.inference, inputs, left)
        if record is not None:
            request.ended = record.ran

    def outputs_of(self, request: LoopRequest) -> tuple[HeadT, Elements]:
        """The response to a request that has ended: the part around its tensors, and these. Raises
        the error of the request.
        """
        found = request.any_result()
        form, elements = sent_outputs(found, self.inference.outputs)
        return self._heads.get(form) or self._note(form, found), elements

    def _note(self, form: object, found: AnyResult) -> HeadT:
        inference = self.inference
        named = client_outputs(inference.model, wanted_arrays(found, inference.outputs))
        if len(self._heads) >= _KEPT:
            self._heads.clear()
        self._heads[form] = head = self._head_of(InferenceAnswer(inference.model, "", named))
        return head

    @abstractmethod
    def _head_of(self, answer: InferenceAnswer) -> HeadT:
        """The part of responses around their tensors, for outputs of the form of this answer."""
