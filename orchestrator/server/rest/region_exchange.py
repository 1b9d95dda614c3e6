"""Region exchange: a prepared exchange whose tensors are in shared memory of the client."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

from ...requests.request_inputs import Inputs
from ..http.exchange import Part
from ..inference import InferenceService
from ..shared_memory.transfers import LOOP_COPY, copy_from_places, copy_to_places
from .document_reader import ReadDocument
from .prepared_exchange import PreparedExchange


def fits_regions(document: ReadDocument) -> bool:
    """Whether all tensors of a request are in regions, and few enough for the loop to copy."""
    head, forms = document
    if len(head.shared) < len(head.inputs) or not forms.all_placed(head.model):
        return False
    places = [place for _, place in head.shared.values()], forms.places.values()
    return all(sum(one.size for one in half) <= LOOP_COPY for half in places)


class RegionExchange(PreparedExchange):
    """The part that all requests with one head and one document have in common. The document names
    regions, so it must be forgotten when one of them goes.
    """

    def __init__(self, service: InferenceService, document: ReadDocument, text: bytes) -> None:
        """Raises InputError, NotLoaded."""
        head, forms = document
        self._sources = [place for _, place in head.shared.values()]
        starts = accumulate((place.size for place in self._sources), initial=0)
        super().__init__(service, document, text, dict(zip(head.shared, starts, strict=False)))
        self._targets = [forms.places[name] for name in self.inference.outputs]

    def inputs_of(self, body: bytes) -> Inputs:
        """See PreparedExchange. Raises InputError where the client has shortened a region."""
        inputs, parts = self.inference.inputs.room()
        copy_from_places(self._sources, parts, inputs)
        return inputs

    def tail_of(self, elements: Sequence[Part]) -> Sequence[Part]:
        """See PreparedExchange: nothing follows, as the outputs go to their places."""
        copy_to_places(self._targets, self.inference.outputs, elements)
        return ()
