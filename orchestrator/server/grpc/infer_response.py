"""Inference responses in gRPC: each output raw, or as the classes that a client asks for."""

from __future__ import annotations

from ....comm.arrays import Array
from ....comm.errors import InputError
from ....comm.serving.string_tensor import encode_elements
from ..catalog import TensorDescription
from ..classification import top_classes
from ..datatypes import BYTES, datatype_of, sent_elements, sent_size
from ..inference import InferenceAnswer
from ..shared_memory.client_regions import ClientRegions
from ..shared_memory.shared_tensor import SharedTensor
from .infer_request import place_of, value_of
from .infer_wire import encoded
from .protocol.inference import ModelInferRequest, ModelInferResponse


class OutputWishes:
    """How the outputs of one request are to be sent: by name `classes`, how many of them, and
    `places` in shared memory.
    """

    def __init__(self, message: ModelInferRequest, regions: ClientRegions) -> None:
        """Raises InputError."""
        self.classes: dict[str, int] = {}
        self.places: dict[str, SharedTensor] = {}
        for one in message.outputs:
            if one.parameters:
                self._add(one, regions)

    @property
    def plain(self) -> bool:
        """Whether all outputs are to be raw in the response."""
        return not self.classes and not self.places

    def _add(
        self, one: ModelInferRequest.InferRequestedOutputTensor, regions: ClientRegions
    ) -> None:
        place = place_of(one.parameters, regions)
        count = value_of(one.parameters, "classification", 0)
        if not isinstance(count, int) or count < 0:
            raise InputError(
                f"classification: got {count!r:.40}, expected how many classes, 1 or more."
            )
        if place is not None and count:
            raise InputError(f"the output '{one.name}' cannot be in shared memory as classes.")
        if place is not None:
            self.places[one.name] = place
        elif count:
            self.classes[one.name] = count


def response_head(answer: InferenceAnswer) -> ModelInferResponse:
    """A response without outputs."""
    return ModelInferResponse(
        model_name=answer.model.name, model_version=answer.model.version, id=answer.id
    )


def response(answer: InferenceAnswer, wishes: OutputWishes) -> bytes:
    """A ModelInferResponse, in its encoded form."""
    head = response_head(answer)
    tensors: list[memoryview | bytes] = []
    for name, array in answer.outputs.items():
        count = wishes.classes.get(name)
        if count:
            tensors.append(_classes(head, answer.model.outputs[name], array, count))
            continue
        made = head.outputs.add(name=name, datatype=datatype_of(array.dtype), shape=array.shape)
        place = wishes.places.get(name)
        if place is None:
            tensors.append(sent_elements(array))
        else:
            tensors.append(_placed(made, place, sent_size(array)))
    return encoded(head, tensors)


def _placed(made: ModelInferResponse.InferOutputTensor, place: SharedTensor, size: int) -> bytes:
    """An output that has been written to its place, and its raw contents, which are none."""
    for name, value in place.parameters(size):
        if isinstance(value, str):
            made.parameters[name].string_param = value
        else:
            made.parameters[name].int64_param = value
    return b""


def _classes(
    head: ModelInferResponse, tensor: TensorDescription, array: Array, count: int
) -> bytes:
    shape, texts = top_classes(array, count, tensor.labels)
    head.outputs.add(name=tensor.name, datatype=BYTES, shape=shape)
    return encode_elements(texts)
