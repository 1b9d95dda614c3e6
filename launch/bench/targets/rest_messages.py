"""REST messages of a client: requests with their tensors, answers as outputs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import numpy as np

from ....comm.arrays import Array
from ....comm.errors import UsageError
from ....comm.serving.string_tensor import decode_elements, strings_of
from ....comm.serving.tensor_spec import STRINGS, TensorSpec
from ....orchestrator.server.datatypes import datatype_of, dtype_of, sent_elements, sent_size
from ....orchestrator.server.model_pages import TensorMessage
from ....orchestrator.server.rest.documents.json_tensors import elements_of
from ....orchestrator.server.rest.infer_request import decode_document
from ....orchestrator.server.rest.messages import AnswerMessage, OutputMessage
from .reply import HttpReply, RequestFailed

_SIZE = "binary_data_size"


class ModelPage(msgspec.Struct):
    """Metadata of a model, as far as a client needs it."""

    inputs: list[TensorMessage]
    outputs: list[TensorMessage]


def specs_of(tensors: Sequence[TensorMessage]) -> tuple[TensorSpec, ...]:
    """Inputs or outputs. Raises UsageError for a datatype that there is not."""
    return tuple(spec_of(one.name, one.datatype, one.shape) for one in tensors)


def spec_of(name: str, datatype: str, shape: Sequence[int]) -> TensorSpec:
    """One input or output. Raises UsageError for a datatype that there is not."""
    dtype = dtype_of(datatype)
    if dtype is None:
        raise UsageError(f"the tensor '{name}' has the datatype {datatype}, which is not known.")
    return TensorSpec(name, STRINGS if dtype.hasobject else dtype.name, tuple(shape))


def infer_body(inputs: Mapping[str, Array], binary: bool) -> tuple[bytes, int | None]:
    """The body of a request, and the length of its document where tensors follow in binary."""
    described = [_described(name, array, binary) for name, array in inputs.items()]
    head = msgspec.json.encode({"inputs": described, "parameters": {"binary_data_output": binary}})
    if not binary:
        return head, None
    return b"".join((head, *map(sent_elements, inputs.values()))), len(head)


def _described(name: str, array: Array, binary: bool) -> dict[str, Any]:
    found = {"name": name, "shape": array.shape, "datatype": datatype_of(array.dtype)}
    if binary:
        return {**found, "parameters": {_SIZE: sent_size(array)}}
    return {**found, "data": elements_of(name, array)}


def outputs_of(reply: HttpReply) -> dict[str, Array]:
    """The outputs of an answer. Raises RequestFailed where it is none."""
    head = len(reply.body) if reply.head < 0 else reply.head
    tail = memoryview(reply.body)[head:]
    try:
        message = decode_document(reply.body[:head], AnswerMessage)
        found = {}
        for one in message.outputs:
            size = int(one.parameters.get(_SIZE) or 0)
            found[one.name] = _array(one, tail[:size])
            tail = tail[size:]
        return found
    except (msgspec.DecodeError, UnicodeDecodeError, ValueError, TypeError) as error:
        raise RequestFailed("answer", f"is no answer of the protocol: {error}.") from None


def received(raw: memoryview | bytes, dtype: np.dtype[Any], shape: Sequence[int]) -> Array:
    """An output in binary. Raises ValueError where it has other elements."""
    if dtype.hasobject:
        return decode_elements(raw, tuple(shape))
    return np.frombuffer(raw, dtype).reshape(shape)


def _array(output: OutputMessage, raw: memoryview) -> Array:
    """An output in binary, or in JSON, where null stands for NaN, and literals
    for themselves.
    """
    dtype = dtype_of(output.datatype)
    if dtype is None:
        raise ValueError(f"the output '{output.name}' has the datatype {output.datatype[:80]}")
    if not isinstance(output.data, list):
        return received(raw, dtype, output.shape)
    if dtype.hasobject:
        return strings_of(output.data).reshape(output.shape)
    elements = [np.nan if one is None else one for one in output.data]
    return np.array(elements, dtype).reshape(output.shape)
