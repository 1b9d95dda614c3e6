"""Repeated inference: finds the prepared exchange of a request by its head and its document.

They tell the model, the places of the inputs, and the head and the document of the response.
RestApplication answers all other requests.
"""

from __future__ import annotations

from ....comm.errors import InputError, RankmeshError
from ..http.request_head import RequestHead
from ..inference import InferenceService
from ..server_state import ServerState
from .document_reader import KEPT_BYTES, DocumentReader, ReadDocument
from .inference_route import document_length
from .prepared_exchange import PreparedExchange
from .region_exchange import RegionExchange, fits_regions

_KEPT = 256
_SMALL = 1 << 15
"""Bytes of a body that is received whole before its request begins; tensors of a larger one are
received in the memory that ranks read.
"""

_UNFIT = {b"content-encoding", b"expect"}


class RepeatedInference:
    """The requests of one server that came before."""

    def __init__(self, state: ServerState, documents: DocumentReader) -> None:
        self._state = state
        self._documents = documents
        self._lengths: dict[RequestHead, int] = {}
        """By head: how long its document is."""

        self._prepared: dict[tuple[RequestHead, bytes], PreparedExchange] = {}
        documents.regions.watch(self._prepared.clear)

    def takes(self, head: RequestHead) -> int | None:
        """How many bytes of the body a `find` needs; see ImmediateApplication."""
        found, length = _document_length(head), head.length or 0
        return length if found is not None and length <= _SMALL else found

    def find(self, head: RequestHead, start: bytes) -> PreparedExchange | None:
        """The exchange of a request whose body begins like this, if it can be prepared."""
        length = self._lengths.get(head)
        text = start[: self._note_length(head) if length is None else length]
        prepared = self._prepared.get((head, text))
        if prepared is None or not prepared.current:
            prepared = self._prepare(head, text)
        return prepared

    def _note_length(self, head: RequestHead) -> int:
        if len(self._lengths) >= _KEPT:
            self._lengths.clear()
        self._lengths[head] = found = _document_length(head) or 0
        return found

    def _prepare(self, head: RequestHead, text: bytes) -> PreparedExchange | None:
        """The exchange of a head and a document, if it can be prepared."""
        match head.path:
            case ["v2", "models", name, "infer"]:
                version = ""
            case ["v2", "models", name, "versions", version, "infer"]:
                pass
            case _:
                return None
        try:
            service = self._state.service()
            model = service.catalog.find(name, version)
            length = head.length or 0
            document = self._documents.known(text or None, length, model)
            if document is None or model.has_strings or document[0].binary != length - len(text):
                return None
            prepared = _exchange(service, document, text)
        except RankmeshError:  # the task of the request finds it again, and tells it
            return None
        if prepared is not None:
            if len(self._prepared) >= _KEPT:
                self._prepared.clear()
            self._prepared[head, text] = prepared
        return prepared


def _exchange(
    service: InferenceService, document: ReadDocument, text: bytes
) -> PreparedExchange | None:
    """The exchange of a document, if all tensors of both ways are in binary, or all in regions."""
    head, forms = document
    if head.all_binary and forms.all_binary(head.model):
        starts = {name: len(text) + start for name, start in head.starts().items()}
        return PreparedExchange(service, document, text, starts)
    return RegionExchange(service, document, text) if fits_regions(document) else None


def _document_length(head: RequestHead) -> int | None:
    """The length of the document of a head that may be prepared, None for others."""
    plain = head.method == "POST" and not _UNFIT & head.headers.keys()
    if not plain or not head.length:
        return None
    try:
        found = document_length(head.headers)
    except InputError:  # the task of the request finds it again, and tells it
        return None
    found = head.length if found is None else found
    return None if found > min(head.length, KEPT_BYTES) else found
