"""The route of inference: a body becomes a request, whose answer becomes a response."""

from __future__ import annotations

from collections.abc import Mapping

from ....comm.arrays import Array
from ....comm.errors import InputError
from ...requests.inputs import Buffers
from ..catalog import ModelDescription
from ..datatypes import bytes_of
from ..http.exchange import BadRequest, HttpRequest, HttpResponse
from ..inference import InferenceService
from ..shared_memory.transfers import with_shared_inputs, write_outputs
from .body_encoding import inflated
from .document_reader import DocumentReader
from .infer_request import InferHead
from .infer_response import HEADER_LENGTH

_DIRECT = 1 << 16
"""Bytes of tensors from which on they are received in the memory that ranks read."""


async def infer(
    service: InferenceService,
    model: ModelDescription,
    request: HttpRequest,
    limit: int,
    documents: DocumentReader,
) -> HttpResponse:
    """Answer an inference request; its body may have `limit` bytes when it is inflated."""
    encoding = request.headers.get(b"content-encoding", b"").decode("latin-1").strip().lower()
    document = document_length(request.headers)
    length = request.body.length
    inputs: dict[str, Array] | Buffers
    if document is not None and length is not None and encoding in ("", "identity"):
        text = await request.body.read(document) if document else None
        head, forms = documents.read(model, text, length)
        whole = head.all_binary and head.binary == length - document
        if whole and head.binary >= _DIRECT and service.receives_in_place(model):
            inputs = await _received(service, head, request)
        else:
            inputs = head.arrays(memoryview(await request.body.read_rest()))
    else:
        content = await inflated(await request.body.read_rest(), encoding, limit)
        cut = len(content) if document is None else document
        if cut > len(content):
            raise BadRequest(400, f"the document has {cut} bytes, and the body {len(content)}.")
        head, forms = documents.read(model, None if document == 0 else content[:cut], len(content))
        inputs = head.arrays(memoryview(content)[cut:])
    if head.shared:
        inputs = await with_shared_inputs(service, model, inputs, head.shared)
    answer = await service.infer(head.request(inputs, forms.names))
    if forms.places:
        await write_outputs(answer, forms.places)
    return forms.response(answer)


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
