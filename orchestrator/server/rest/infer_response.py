"""Inference answers in REST: each output in the JSON document, or behind it in binary."""

from __future__ import annotations

from dataclasses import dataclass

from msgspec import Raw, json

from ....comm.arrays import Array
from ....comm.errors import InputError
from ....comm.serving.string_tensor import encode_elements
from ..catalog import ModelDescription, TensorDescription
from ..classification import top_classes
from ..datatypes import BYTES, sent_elements, sent_size
from ..http.exchange import JSON_TYPE, HttpResponse, Part
from ..inference import InferenceAnswer
from ..shared_memory.client_regions import ClientRegions
from ..shared_memory.shared_tensor import SharedTensor
from ..steps import Steps, finished
from .documents.json_tensors import LONG, elements_of, list_parts
from .infer_request import BINARY_SIZE, place_of
from .messages import AnswerMessage, InferMessage, OutputMessage, OutputWish

HEADER_LENGTH = b"inference-header-content-length"
_PLACE = b"\0"
"""Stands in a document for a long list: every other zero byte is escaped there."""

_BINARY_TYPE = (b"content-type", b"application/octet-stream")


@dataclass(frozen=True, slots=True)
class OutputForm:
    """How an output is to be sent: in binary, and as so many classes (0: as it is); or to which
    place in shared memory it goes.
    """

    binary: bool
    classes: int
    place: SharedTensor | None = None

    @classmethod
    def of(cls, wish: OutputWish, binary: bool, regions: ClientRegions) -> OutputForm:
        """The form that a request asks for; `binary` where it does not say."""
        parameters = wish.parameters or {}
        classes = parameters.get("classification", 0)
        if not isinstance(classes, int) or isinstance(classes, bool) or classes < 0:
            raise InputError(
                f"classification: got {classes!r:.40}, expected how many classes, 1 or more."
            )
        place = place_of(parameters, regions) if parameters else None
        if place is not None and (classes or parameters.get("binary_data")):
            raise InputError(
                f"the output '{wish.name}' cannot be in shared memory as classes, or in binary."
            )
        return cls(parameters.get("binary_data", binary) is True, classes, place)


class OutputForms:
    """The forms of the outputs that one request asks for."""

    def __init__(self, message: InferMessage, regions: ClientRegions, strict: bool) -> None:
        """`strict`: JSON has null for NaN and infinities, in place of literals.

        Raises InputError where a request asks for what cannot be.
        """
        self._strict = strict
        binary = (message.parameters or {}).get("binary_data_output") is True
        self._other = OutputForm(binary, 0)
        wishes = message.outputs or []
        self._forms = {wish.name: OutputForm.of(wish, binary, regions) for wish in wishes}
        self.names = [wish.name for wish in wishes]
        self.places = {
            name: form.place for name, form in self._forms.items() if form.place is not None
        }

    def all_binary(self, model: ModelDescription) -> bool:
        """Whether all outputs are sent in binary, as they are."""
        forms = [self._forms.get(name, self._other) for name in self.names or model.outputs]
        return all(one.binary and not one.classes and one.place is None for one in forms)

    def all_placed(self, model: ModelDescription) -> bool:
        """Whether all outputs go to places in shared memory."""
        return self.places.keys() >= set(self.names or model.outputs)

    def listed(self, answer: InferenceAnswer) -> int:
        """How many elements the lists of the response have."""
        sizes = (array.size for name, array in answer.outputs.items() if self._is_list(name))
        return sum(sizes)

    def response(self, answer: InferenceAnswer) -> HttpResponse:
        """The response with all outputs, whose lists are not long."""
        return finished(self.encoded(answer))

    def encoded(self, answer: InferenceAnswer) -> Steps[HttpResponse]:
        """The response with all outputs."""
        tails: list[Part] = []
        model = answer.model
        outputs = [
            self._output(model.outputs[name], array, tails)
            for name, array in answer.outputs.items()
        ]
        document = json.encode(AnswerMessage(model.name, model.version, outputs, answer.id))
        head, *others = document.split(_PLACE)
        parts = [head]
        long = [one for one in answer.outputs.items() if self._is_list(one[0], one[1].size)]
        for (name, array), other in zip(long, others, strict=True):
            parts += yield from list_parts(name, array, self._strict)
            parts.append(other)
        if not tails:
            return HttpResponse(200, parts, (JSON_TYPE,))
        length = (HEADER_LENGTH, b"%d" % sum(map(len, parts)))
        return HttpResponse(200, (*parts, *tails), (_BINARY_TYPE, length))

    def _is_list(self, name: str, size: int = LONG + 1) -> bool:
        """Whether an output of more than LONG elements would be a list in the document."""
        form = self._forms.get(name, self._other)
        return size > LONG and not (form.classes or form.binary or form.place)

    def _output(self, tensor: TensorDescription, array: Array, tails: list[Part]) -> OutputMessage:
        """One output; what is sent in binary is added to `tails`."""
        form = self._forms.get(tensor.name, self._other)
        if form.classes:
            return _classes(tensor, array, form, tails)
        message = OutputMessage(tensor.name, tensor.datatype, list(array.shape))
        if form.place is not None:
            message.parameters = dict(form.place.parameters(sent_size(array)))
        elif form.binary:
            tail = sent_elements(array)
            tails.append(tail)
            message.parameters = {BINARY_SIZE: len(tail)}
        elif array.size > LONG:
            message.data = Raw(_PLACE)
        else:
            message.data = elements_of(tensor.name, array, self._strict)
        return message


def _classes(
    tensor: TensorDescription, array: Array, form: OutputForm, tails: list[Part]
) -> OutputMessage:
    shape, texts = top_classes(array, form.classes, tensor.labels)
    message = OutputMessage(tensor.name, BYTES, shape)
    if form.binary:
        tail = encode_elements(texts)
        tails.append(tail)
        message.parameters = {BINARY_SIZE: len(tail)}
    else:
        message.data = [text.decode() for text in texts]
    return message
