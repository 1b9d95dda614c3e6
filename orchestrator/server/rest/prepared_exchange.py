"""Prepared exchange: a request and its response, of which only the tensors are still to come."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import partial

from ....comm.arrays import Array
from ....comm.errors import Closed, Draining
from ...requests.loaded_versions import NotLoaded
from ...requests.request import CallOutcome
from ..datatypes import sent_elements
from ..http.exchange import HttpResponse
from ..http.immediate import Cancellable, Respond
from ..http.response_head import header_lines
from ..inference import InferenceAnswer, InferenceService
from ..tensor_shapes import client_outputs
from .document_reader import ReadDocument
from .fault_response import fault_response

_KEPT = 64
Shapes = tuple[tuple[int, ...], ...]


class PreparedExchange:
    """The part that all requests with one head and one document have in common."""

    def __init__(self, service: InferenceService, document: ReadDocument) -> None:
        """`document` is of a request whose tensors are all in binary, like those of its response.

        Raises InputError, NotLoaded.
        """
        head, forms = document
        shapes = {one.tensor.name: one.shape for one in head.inputs}
        self._service = service
        self._forms = forms
        self._inference = service.prepare(head.request({}, forms.names), shapes, head.starts())
        self._responses: dict[Shapes, HttpResponse] = {}
        """By the shapes of the outputs: the response, of which only the document counts."""

    @property
    def current(self) -> bool:
        """Whether it still holds: each change of the models ends it."""
        return self._service.current(self._inference)

    def begin(self, tensors: memoryview, respond: Respond) -> Cancellable:
        """See Begin."""
        try:
            return self._service.begin(self._inference, tensors, partial(self._answered, respond))
        except Exception as error:  # of any class: the client gets its codes
            return asyncio.get_running_loop().call_soon(respond, self._fault(error))

    def _answered(self, respond: Respond, outcome: CallOutcome) -> None:
        try:
            found = outcome.result()
            assert isinstance(found, dict)
            response = self._response([found[name] for name in self._inference.outputs])
        except Exception as error:  # of any class, likewise
            respond(self._fault(error))
        else:
            respond(response)

    def _fault(self, error: Exception) -> HttpResponse | None:
        """The response for an error; None where a task asks the current version, if there is one,
        as this one is being unloaded.
        """
        if isinstance(error, (NotLoaded, Draining, Closed)):
            return None
        return fault_response(error, self._inference.model.name)

    def _response(self, outputs: Sequence[Array]) -> HttpResponse:
        shapes = tuple([array.shape for array in outputs])
        known = self._responses.get(shapes) or self._note_response(shapes, outputs)
        parts = [known.parts[0], *map(sent_elements, outputs)]
        return HttpResponse(200, parts, known.headers, lines=known.lines)

    def _note_response(self, shapes: Shapes, outputs: Sequence[Array]) -> HttpResponse:
        inference = self._inference
        found = dict(zip(inference.outputs, outputs, strict=True))
        named = client_outputs(inference.model, found)
        response = self._forms.response(InferenceAnswer(inference.model, "", named))
        response.lines = header_lines(response)
        response.parts = response.parts[:1]
        if len(self._responses) >= _KEPT:
            self._responses.clear()
        self._responses[shapes] = response
        return response
