"""Document reader: the documents of inference requests, those that came before without decoding."""

from __future__ import annotations

from ..catalog import ModelDescription
from ..shared_memory.client_regions import ClientRegions
from .documents.document_parts import DocumentParts, whole
from .infer_request import InferHead, decoded
from .infer_response import OutputForms
from .messages import InferMessage
from .raw_request import raw_message

ReadDocument = tuple[InferHead, OutputForms]
Key = tuple[bytes | None, int]
"""A document, and the length of its body."""

_KEPT = 256
KEPT_BYTES = 2048
"""Of a document that is kept, at most."""


class DocumentReader:
    """Reads the documents of one server's inference requests.

    Most clients that send tensors in binary, or have them in shared memory, send the same document
    with every request. So those that were read last are kept by their bytes.
    """

    def __init__(self, regions: ClientRegions, strict_json: bool) -> None:
        """For `strict_json` see ServerSettings."""
        self.regions = regions
        """Where tensors may be."""

        self._strict = strict_json
        self._kept: dict[Key, ReadDocument] = {}
        self._placed: dict[Key, ReadDocument] = {}
        """Those with tensors in regions, until a region comes or goes."""

        regions.watch(self._placed.clear)

    def known(
        self, text: bytes | None, length: int, model: ModelDescription
    ) -> ReadDocument | None:
        """A document for a model, if it came before."""
        key = text, length
        kept = self._kept.get(key) or self._placed.get(key)
        return kept if kept is not None and kept[0].model is model else None

    def read(
        self,
        model: ModelDescription,
        text: bytes | None,
        length: int,
        parts: DocumentParts | None = None,
    ) -> ReadDocument:
        """The document `text`; None: what stands for it where the body of `length` bytes has none.
        `parts` are its, if it is large.

        Raises InputError where it does not fit the model, UnknownRegion where it names none of the
        regions.
        """
        known = self.known(text, length, model)
        if known is not None:
            return known
        parts = parts or whole(text or b"")
        message = raw_message(model, length) if text is None else decoded(parts.rest, InferMessage)
        head = InferHead(model, message, self.regions, parts)
        found = head, OutputForms(message, self.regions, self._strict)
        if len(text or b"") <= KEPT_BYTES and not head.has_elements and not message.id:
            placed = bool(head.shared or found[1].places)
            _keep(self._placed if placed else self._kept, (text, length), found)
        return found


def _keep(documents: dict[Key, ReadDocument], key: Key, found: ReadDocument) -> None:
    if len(documents) >= _KEPT:
        documents.clear()
    documents[key] = found
