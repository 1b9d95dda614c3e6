"""Inference requests in REST: the JSON document, and the tensors that follow it in binary."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

import msgspec
import numpy as np

from ....comm.arrays import Array
from ....comm.errors import InputError
from ...requests.inputs import Buffers
from ..catalog import ModelDescription, TensorDescription
from ..datatypes import strings_in
from ..inference import InferenceRequest
from ..shared_memory.client_regions import ClientRegions
from ..shared_memory.shared_tensor import OFFSET, REGION, SIZE, SharedTensor
from ..steps import PART, Steps
from .documents.document_parts import DocumentParts
from .documents.json_literals import with_quoted_literals
from .documents.json_tensors import array_of
from .messages import InferMessage, InputMessage, Parameters

MessageT = TypeVar("MessageT")
BINARY_SIZE = "binary_data_size"
_PAIR = re.compile(rb"\\\\|\\u[dD][89abAB]..\\u[dD][c-fC-F]")
_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F]")
_HALF_A_PAIR = (
    "the document of the request has half of a surrogate pair (\\ud800 to \\udfff), which is no "
    "character: send both halves, or the character in UTF-8."
)
_CONTROLS = ("sequence_id", "sequence_start", "sequence_end")


@dataclass(frozen=True, slots=True)
class GivenInput:
    """One input of a request, checked against the model: `binary` bytes of the body are its
    elements; None: its document has them, or a region of shared memory.
    """

    tensor: TensorDescription
    shape: tuple[int, ...]
    binary: int | None
    message: InputMessage


class InferHead:
    """The document of a request for one model, checked: all but the elements of its tensors."""

    def __init__(
        self,
        model: ModelDescription,
        message: InferMessage,
        regions: ClientRegions,
        parts: DocumentParts,
    ) -> None:
        """The message is that of the `parts`. Raises InputError where it does not fit the model,
        UnknownRegion where it names none of the regions.
        """
        self.model = model
        self._parts = parts
        self._regions = regions
        self.shared: dict[str, tuple[tuple[int, ...], SharedTensor]] = {}
        """The inputs that are in regions of shared memory."""

        self.message = message
        model.require_inputs([one.name for one in message.inputs])
        self.inputs = [self._checked(one) for one in message.inputs]
        self.binary = sum(one.binary or 0 for one in self.inputs)
        """How many bytes of tensors follow the document."""

        self.all_binary = all(one.binary is not None for one in self.inputs)
        """Whether all inputs follow the document."""

        self._parameters = message.parameters or {}
        _refuse_sequences(self._parameters)

    @property
    def has_elements(self) -> bool:
        """Whether the document has the elements of an input."""
        return any(one.has_data for one in self.message.inputs)

    @property
    def much(self) -> bool:
        """Whether its arrays take more time than the loop has."""
        return self._parts.spans is not None or self.model.has_strings and self.binary > PART

    def starts(self) -> dict[str, int]:
        """Where each input begins in the bytes that follow the document, where all are there."""
        found, at = {}, 0
        for one in self.inputs:
            found[one.tensor.name] = at
            at += one.binary or 0
        return found

    def require_tail(self, size: int) -> None:
        """InputError where other than `size` bytes of tensors follow the document."""
        if self.binary != size:
            raise InputError(
                f"the inputs announce {self.binary} bytes of tensors, and {size} follow the "
                "document."
            )

    def arrays(self, tail: memoryview) -> Steps[dict[str, Array]]:
        """The inputs of the document and of the bytes that follow it, by name."""
        self.require_tail(len(tail))
        found: dict[str, Array] = {}
        at = 0
        for one in self.inputs:
            if one.tensor.name in self.shared:
                continue
            if one.binary is None:
                data = self._parts.span(one.message.data)
                found[one.tensor.name] = yield from array_of(one.tensor, one.shape, data)
                continue
            found[one.tensor.name] = _binary(one, tail[at : at + one.binary])
            at += one.binary
        return found

    def request(
        self, inputs: dict[str, Array] | Buffers, outputs: Sequence[str]
    ) -> InferenceRequest:
        """The request for a service."""
        return InferenceRequest(
            self.model,
            inputs,
            self.message.id or "",
            self._parameters.get("priority", 0),
            self._parameters.get("timeout", 0),
            outputs,
        )

    def _checked(self, one: InputMessage) -> GivenInput:
        tensor = self.model.input(one.name)
        shape = tuple(one.shape)
        size = tensor.require(self.model.name, one.datatype, shape)
        parameters = one.parameters or {}
        binary = parameters.get(BINARY_SIZE)
        shared = (
            place_of(parameters, self._regions) if len(parameters) > (binary is not None) else None
        )
        if shared is not None:
            if one.has_data or binary is not None:
                raise InputError(
                    f"the input '{one.name}' is in shared memory, and in the body: give one."
                )
            shared.require(one.name, size)
            self.shared[one.name] = shape, shared
            return GivenInput(tensor, shape, None, one)
        if binary is None:
            if not one.has_data:
                raise InputError(
                    f"the input '{one.name}' has neither `data` nor `{BINARY_SIZE}`: give one."
                )
            return GivenInput(tensor, shape, None, one)
        if one.has_data:
            raise InputError(f"the input '{one.name}' has `data` and `{BINARY_SIZE}`: give one.")
        if type(binary) is not int or binary < 0 or size not in (None, binary):
            raise InputError(
                f"the input '{one.name}' has {binary!r:.40} bytes, expected "
                f"{'some number' if size is None else size} for {one.datatype} of the shape "
                f"{one.shape}."
            )
        return GivenInput(tensor, shape, binary, one)


def _binary(given: GivenInput, data: memoryview) -> Array:
    """An input that follows the document."""
    tensor = given.tensor
    if tensor.strings:
        return strings_in(data, tensor.name, given.shape)
    return np.frombuffer(data, tensor.dtype).reshape(given.shape)


def decoded(document: bytes | memoryview, kind: type[MessageT]) -> MessageT:
    """A document as a message; InputError tells which key is wrong."""
    try:
        return decode_document(document, kind)
    except msgspec.DecodeError as error:
        if _has_half_a_pair(document):
            raise InputError(_HALF_A_PAIR) from None
        raise InputError(f"the document of the request: {error}") from None
    except (UnicodeDecodeError, RecursionError):
        raise InputError("the document of the request is no JSON in UTF-8.") from None


def decode_document(document: bytes | memoryview, kind: type[MessageT]) -> MessageT:
    """A document, which may have literals beyond the standard of JSON, as a message.

    Raises msgspec.DecodeError, UnicodeDecodeError, RecursionError.
    """
    try:
        return msgspec.json.decode(document, type=kind)
    except msgspec.DecodeError:
        quoted = with_quoted_literals(document)
        if quoted is None:
            raise
        return msgspec.json.decode(quoted, type=kind)


def _has_half_a_pair(document: bytes | memoryview) -> bool:
    """Whether a string has the escape of a surrogate without the one of its other half."""
    return _SURROGATE.search(_PAIR.sub(b"", document)) is not None


def place_of(parameters: Parameters, regions: ClientRegions) -> SharedTensor | None:
    """Where a tensor with these parameters is in shared memory; None where it is not."""
    return regions.tensor(parameters.get(REGION), parameters.get(OFFSET), parameters.get(SIZE))


def _refuse_sequences(parameters: Parameters) -> None:
    for name in _CONTROLS:
        if parameters.get(name):
            raise InputError(f"{name}: models keep no state between the requests of a sequence.")
