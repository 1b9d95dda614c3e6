"""The route of inference: a body becomes a request, whose answer becomes a response."""

from __future__ import annotations

from collections.abc import Mapping

from ....comm.arrays import Array
from ....comm.errors import InputError
from ...requests.inputs import Buffers
from ..catalog import ModelDescription
from ..datatypes import bytes_of
from ..http.exchange import BadRequest, HttpRequest, HttpResponse
from ..inference import InferenceAnswer, InferenceService
from ..inflation import decoded_bytes
from ..shared_memory.transfers import with_shared_inputs, write_outputs
from ..steps import PART, StepThreads, finished
from .body_encoding import PLAIN, inflated
from .body_limits import MOST_BESIDE, most_inflated, require_size
from .document_reader import DocumentReader
from .documents.document_parts import taken_apart
from .documents.json_tensors import LONG, LONGEST_TEXTS
from .infer_request import InferHead
from .infer_response import HEADER_LENGTH, OutputForms

_LISTED_BYTES = 8
"""Bytes of an element in the JSON of an answer, or more."""

_DIRECT = 1 << 16
"""Bytes of tensors from which on they are received in the memory that ranks read."""


class InferenceRoute:
    """Answers the inference requests of one server."""

    def __init__(self, documents: DocumentReader, limit: int, threads: StepThreads) -> None:
        """A body may have `limit` bytes; large ones are decoded in the `threads`."""
        self._documents = documents
        self._limit = limit
        self._threads = threads

    async def answer(
        self, service: InferenceService, model: ModelDescription, request: HttpRequest
    ) -> HttpResponse:
        """The response to a request for a model."""
        document = document_length(request.headers)
        length = request.body.length
        encoding = request.headers.get(b"content-encoding", b"").decode("latin-1").strip().lower()
        if document is None or length is None or encoding not in PLAIN:
            head, forms, inputs = await self._whole(model, request, document, encoding)
        else:
            require_size(model, length, document, self._limit)
            text = await request.body.read(document) if document else None
            head, forms = await self._read(model, text, length)
            inputs = await self._inputs(service, head, request, length - document)
        if head.shared:
            inputs = await with_shared_inputs(service, model, inputs, head.shared)
        answer = await service.infer(head.request(inputs, forms.names))
        if forms.places:
            await write_outputs(answer, forms.places)
        return await self._encoded(forms, answer)

    async def _encoded(self, forms: OutputForms, answer: InferenceAnswer) -> HttpResponse:
        listed = forms.listed(answer)
        if listed <= LONG:
            return forms.response(answer)
        most = decoded_bytes(self._limit) // _LISTED_BYTES
        if listed > most:
            raise InputError(
                f"the outputs have {listed} elements, and may have {most} in JSON: ask for them in "
                "binary (binary_data)."
            )
        return await self._threads.run(forms.encoded(answer))

    async def _whole(
        self, model: ModelDescription, request: HttpRequest, document: int | None, encoding: str
    ) -> tuple[InferHead, OutputForms, dict[str, Array] | Buffers]:
        """A body that is read before its document, as the length of that is not known."""
        if encoding in PLAIN and request.body.length is not None:
            require_size(model, request.body.length, request.body.length, self._limit)
        sent = await request.body.read_rest()
        most = most_inflated(model, self._limit)
        content = await inflated(sent, encoding, most, self._threads)
        cut = len(content) if document is None else document
        if cut > len(content):
            raise BadRequest(400, f"the document has {cut} bytes, and the body {len(content)}.")
        require_size(model, len(content), cut, self._limit)
        head, forms = await self._read(
            model, content[:cut] if document != 0 else None, len(content)
        )
        return head, forms, await self._arrays(head, memoryview(content)[cut:])

    async def _read(
        self, model: ModelDescription, text: bytes | None, length: int
    ) -> tuple[InferHead, OutputForms]:
        parts = None
        if text is not None and len(text) > PART:
            most = LONGEST_TEXTS if model.has_strings else MOST_BESIDE
            parts = await self._threads.run(taken_apart(text, most))
        return self._documents.read(model, text, length, parts)

    async def _inputs(
        self, service: InferenceService, head: InferHead, request: HttpRequest, tail: int
    ) -> dict[str, Array] | Buffers:
        """The inputs of a request whose document is read; `tail` bytes of tensors follow."""
        head.require_tail(tail)
        if head.all_binary and tail >= _DIRECT and service.receives_in_place(head.model):
            return await _received(service, head, request)
        return await self._arrays(head, memoryview(await request.body.read_rest()))

    async def _arrays(self, head: InferHead, tail: memoryview) -> dict[str, Array]:
        steps = head.arrays(tail)
        return await self._threads.run(steps) if head.much else finished(steps)


async def _received(service: InferenceService, head: InferHead, request: HttpRequest) -> Buffers:
    """Buffers that hold the tensors of the body, which come in the order of the document."""
    buffers = await service.buffers(head.model, {one.tensor.name: one.shape for one in head.inputs})
    for one in head.inputs:
        if one.binary:
            await request.body.read_into(bytes_of(buffers[one.tensor.name]))
    return buffers


def document_length(headers: Mapping[bytes, bytes]) -> int | None:
    """The bytes of the JSON document, None where it is the whole body. Raises InputError."""
    given = headers.get(HEADER_LENGTH)
    if given is None:
        return None
    if not given.isdigit() or len(given) > 18:
        shown = given[:40].decode("latin-1")
        raise InputError(f"Inference-Header-Content-Length: got {shown}, expected a number.")
    return int(given)
