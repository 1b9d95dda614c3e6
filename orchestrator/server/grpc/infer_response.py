"""Inference responses in gRPC: each output raw, or as the classes that a client asks for."""

from __future__ import annotations

import numpy as np

from ....comm.arrays import Array
from ....comm.errors import InputError
from ..classification import top_classes
from ..datatypes import BYTES, bytes_of, datatype_of, encode_bytes
from ..faults import UnsupportedCall
from ..inference import InferenceAnswer
from .infer_request import value_of
from .infer_wire import encoded
from .protocol.inference import ModelInferRequest, ModelInferResponse


def classes_asked(message: ModelInferRequest) -> dict[str, int]:
    """Of the outputs that are asked for as classes, how many of each. Raises InputError."""
    found = {}
    for one in message.outputs:
        if "shared_memory_region" in one.parameters:
            raise UnsupportedCall("shared memory is not offered by this server.")
        count = value_of(one.parameters, "classification", 0)
        if not isinstance(count, int) or count < 0:
            raise InputError(
                f"classification: got {count!r:.40}, expected how many classes, 1 or more."
            )
        if count:
            found[one.name] = count
    return found


def response(answer: InferenceAnswer, classes: dict[str, int], final: bool = False) -> bytes:
    """A ModelInferResponse; `final` tells a stream's client that no other follows."""
    head = ModelInferResponse(
        model_name=answer.model.name, model_version=answer.model.versions[-1], id=answer.id
    )
    if final:
        head.parameters["triton_final_response"].bool_param = True
    tensors: list[memoryview | bytes] = []
    for name, array in answer.outputs.items():
        count = classes.get(name)
        if count:
            tensors.append(_classes(head, name, array, count))
        else:
            head.outputs.add(name=name, datatype=datatype_of(array.dtype), shape=array.shape)
            tensors.append(bytes_of(np.ascontiguousarray(array)))
    return encoded(head, tensors)


def _classes(head: ModelInferResponse, name: str, array: Array, count: int) -> bytes:
    rows = top_classes(array, count)
    shape = [len(rows), len(rows[0])] if array.ndim > 1 else [len(rows[0])]
    head.outputs.add(name=name, datatype=BYTES, shape=shape)
    return encode_bytes([text for row in rows for text in row])
