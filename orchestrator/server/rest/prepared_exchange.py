"""Prepared exchange: a request and its response, of which only the tensors are still to come."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence

from ....comm.errors import Closed, Draining
from ...requests.loaded_versions import NotLoaded
from ...requests.request import AnyResult
from ...requests.request_inputs import Inputs
from ...scheduling.loop_caller import LoopRequest
from ..http.exchange import HttpResponse, Part
from ..http.immediate import Cancellable, Respond
from ..http.received_body import ReceivedBody
from ..http.response_head import header_lines
from ..inference import InferenceAnswer, InferenceService
from ..sent_outputs import sent_outputs, wanted_arrays
from ..tensor_shapes import client_outputs
from .document_reader import ReadDocument
from .fault_response import fault_response

_KEPT = 64


class PreparedExchange:
    """The part that all requests with one head and one document have in common."""

    def __init__(
        self,
        service: InferenceService,
        document: ReadDocument,
        text: bytes,
        starts: Mapping[str, int],
    ) -> None:
        """`document` is `text` in a body. Each input begins at its start: here in the body, in a
        subclass elsewhere. Raises InputError, NotLoaded.
        """
        self.text = text
        head, forms = document
        shapes = {one.tensor.name: one.shape for one in head.inputs}
        self._service = service
        self._versions = service.versions
        self._forms = forms
        self.inference = service.prepare(head.request({}, forms.names), shapes, starts)
        self._responses: dict[object, HttpResponse] = {}
        """By the form of the outputs: the response, of which only the document counts."""

    def current(self) -> bool:
        """Whether it still holds: each change of the models ends it."""
        return self.inference.loaded is self._versions()

    def begin(self, body: bytes, respond: Respond) -> Cancellable:
        """See ImmediateExchange."""
        request = _PreparedRequest(self, respond)
        try:
            self.submit(request, self.inputs_of(body))
        except Exception as error:  # of any class: the client gets its codes
            return asyncio.get_running_loop().call_soon(respond, self._fault(error))
        return request

    def receive(self, body: ReceivedBody, respond: Respond) -> Cancellable:
        """See ImmediateExchange."""
        try:
            inputs, places = self.inference.inputs.room()
        except Exception as error:  # of any class, likewise
            return asyncio.get_running_loop().call_soon(respond, self._fault(error))
        request = _ReceivedRequest(self, respond, body, inputs, places)
        body.fill(len(self.text), iter(places), request.submit)
        return request

    def inputs_of(self, body: bytes) -> Inputs:
        """The inputs of a request with this body, in shared memory. Raises OutOfMemory."""
        return self.inference.inputs.copied(memoryview(body))

    def tail_of(self, elements: Sequence[Part]) -> Sequence[Part]:
        """The parts behind the document of a response with these elements of its outputs."""
        return elements

    def submit(self, request: LoopRequest, inputs: Inputs) -> None:
        """Begin a request with its inputs. Raises what LoopCaller.begin raises."""
        self._service.begin(request, self.inference, inputs)

    def response(self, request: LoopRequest) -> HttpResponse | None:
        """The response to a request that has ended; None where it wants a task."""
        try:
            found = request.any_result()
            form, elements = sent_outputs(found, self.inference.outputs)
            known = self._responses.get(form) or self._note_response(form, found)
            tail = self.tail_of(elements)
        except Exception as error:  # of any class, likewise
            return self._fault(error)
        return HttpResponse(200, (*known.parts, *tail), known.headers, lines=known.lines)

    def _fault(self, error: Exception) -> HttpResponse | None:
        """The response for an error; None where a task asks the current version, if there is one,
        as this one is being unloaded.
        """
        if isinstance(error, (NotLoaded, Draining, Closed)):
            return None
        return fault_response(error, self.inference.model.name)

    def _note_response(self, form: object, found: AnyResult) -> HttpResponse:
        inference = self.inference
        named = client_outputs(inference.model, wanted_arrays(found, inference.outputs))
        response = self._forms.response(InferenceAnswer(inference.model, "", named))
        response.lines = header_lines(response)
        response.parts = response.parts[:1]
        if len(self._responses) >= _KEPT:
            self._responses.clear()
        self._responses[form] = response
        return response


class _PreparedRequest(LoopRequest):
    """One request of a prepared exchange."""

    placed = True

    def __init__(self, exchange: PreparedExchange, respond: Respond) -> None:
        self._exchange, self._respond = exchange, respond

    def tell(self) -> None:
        """See LoopRequest.tell."""
        self._respond(self._exchange.response(self))


class _ReceivedRequest(_PreparedRequest):
    """One request whose inputs are received where ranks read them."""

    def __init__(
        self,
        exchange: PreparedExchange,
        respond: Respond,
        body: ReceivedBody,
        inputs: Inputs,
        places: Sequence[memoryview],
    ) -> None:
        """The body fills the `places`, which are those of the inputs."""
        super().__init__(exchange, respond)
        self._body, self._received, self._places = body, inputs, places

    def submit(self) -> None:
        """The inputs are there."""
        try:
            self._exchange.submit(self, self._received)
        except Exception as error:  # of any class, likewise
            self.set_exception(error)

    def cancel(self) -> None:
        """See LoopRequest.cancel."""
        self._body.drop()
        if self._body.complete:
            super().cancel()

    def tell(self) -> None:
        """See LoopRequest.tell. A task reads the body anew."""
        response = self._exchange.response(self)
        if response is None:
            self._body.give_back(b"".join((self._exchange.text, *self._places)))
        self._respond(response)
