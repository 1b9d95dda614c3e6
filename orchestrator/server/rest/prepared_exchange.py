"""Prepared exchange: a prepared request of REST, which is answered without a task."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from functools import partial

from ...requests.request import Request
from ...requests.request_inputs import Inputs
from ...scheduling.loop_caller import LoopRequest
from ..http.exchange import HttpResponse, Part
from ..http.immediate import Respond
from ..http.received_body import ReceivedBody
from ..http.response_head import header_lines
from ..inference import InferenceAnswer, InferenceService
from ..observation.record import RequestRecord
from ..observation.request_observer import RequestObserver, identify
from ..repeated.prepared_request import UNFIT, PreparedRequest
from .document_reader import ReadDocument
from .fault_response import fault_response


class PreparedExchange(PreparedRequest[HttpResponse]):
    """The part that all requests with one head and one document have in common. It keeps responses
    of which only the document counts.
    """

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
        head, forms = document
        shapes = {one.tensor.name: one.shape for one in head.inputs}
        super().__init__(service, head.request({}, forms.names), shapes, starts)
        self.text = text
        self._forms = forms

    def request(
        self, observer: RequestObserver | None, record: RequestRecord | None
    ) -> ExchangeRequest:
        """One of the requests, which is not begun yet; an observed one has a record."""
        return ExchangeRequest(self, observer, record)

    def inputs_of(self, body: bytes) -> Inputs:
        """The inputs of a request with this body, in shared memory. Raises OutOfMemory."""
        return self.inference.inputs.copied(memoryview(body))

    def tail_of(self, elements: Sequence[Part]) -> Sequence[Part]:
        """The parts behind the document of a response with these elements of its outputs."""
        return elements

    def response(self, request: LoopRequest) -> HttpResponse | None:
        """The response to a request that has ended; None where a task has to answer it."""
        try:
            known, elements = self.outputs_of(request)
            tail = self.tail_of(elements)
        except UNFIT:
            return None
        except Exception as error:  # of any class: the client gets its codes
            return fault_response(error, self.inference.model.name)
        return HttpResponse(200, (*known.parts, *tail), known.headers, lines=known.lines)

    def _head_of(self, answer: InferenceAnswer) -> HttpResponse:
        """See PreparedRequest."""
        response = self._forms.response(answer)
        response.lines = header_lines(response)
        response.parts = response.parts[:1]
        return response


class ExchangeRequest(LoopRequest):
    """One request of a prepared exchange. See ImmediateRequest."""

    placed = True
    _respond: Respond
    _body: ReceivedBody | None = None
    _places: Sequence[memoryview] = ()
    _begun = False

    def __init__(
        self,
        exchange: PreparedExchange,
        observer: RequestObserver | None,
        record: RequestRecord | None,
    ) -> None:
        self._exchange, self._observer, self._record = exchange, observer, record

    def begin(self, body: bytes, respond: Respond) -> None:
        """See ImmediateRequest."""
        self._respond = respond
        try:
            self._submit(self._exchange.inputs_of(body))
        except Exception as error:  # of any class: the client gets its codes
            self._fail(error)

    def receive(self, body: ReceivedBody, respond: Respond) -> None:
        """See ImmediateRequest."""
        self._respond, self._body = respond, body
        try:
            inputs, self._places = self._exchange.inference.inputs.room()
        except Exception as error:  # of any class, likewise
            return self._fail(error)
        body.fill(len(self._exchange.text), iter(self._places), partial(self._filled, inputs))

    def cancel(self, refusal: HttpResponse | None = None) -> None:
        """See ImmediateRequest."""
        if self._body is not None:
            self._body.drop()
        if self._begun:
            super().cancel()
        self.dropped = True
        self._end()
        self._observe(refusal)

    def tell(self) -> None:
        """See LoopRequest.tell."""
        if self.dropped:
            return
        self._end()
        response, body = self._exchange.response(self), self._body
        if response is None:
            if self._places and body is not None:  # a task reads the body anew
                body.give_back(b"".join((self._exchange.text, *self._places)))
        else:
            self._observe(response)
        self._respond(response)

    def _filled(self, inputs: Inputs) -> None:
        """The inputs are there."""
        try:
            self._submit(inputs)
        except Exception as error:  # of any class, likewise
            self._fail(error)

    def _submit(self, inputs: Inputs) -> None:
        self._exchange.begin(self, inputs, self._record)
        self._begun = True

    def _fail(self, error: Exception) -> None:
        """End with an error before ranks were asked."""
        Request.set_exception(self, error)
        asyncio.get_running_loop().call_soon(self.tell)

    def _end(self) -> None:
        if self.ended is not None:
            self.ended(self)

    def _observe(self, response: HttpResponse | None) -> None:
        """Have the observer know of the response; None: the client is gone."""
        if self._observer is not None and self._record is not None:
            self._observer.end_http(self._record, response)
            if response is not None:
                identify(response, self._record)
