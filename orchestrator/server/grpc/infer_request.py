"""Inference requests in gRPC: a message and its raw contents as a request for the service."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from ....comm.arrays import Array
from ....comm.errors import InputError
from ..catalog import ModelDescription, TensorDescription
from ..faults import UnsupportedCall
from ..inference import InferenceRequest
from .protocol.inference import InferParameter, ModelInferRequest
from .typed_contents import typed_array

RawTensors = Sequence[memoryview | bytes]
_CONTROLS = ("sequence_id", "sequence_start", "sequence_end")
_SHARED = "shared_memory_region"


def inference_request(
    model: ModelDescription, message: ModelInferRequest, raw: RawTensors
) -> InferenceRequest:
    """The request of a message whose raw contents are `raw`. Raises InputError."""
    parameters = message.parameters
    for name in _CONTROLS if parameters else ():
        if value_of(parameters, name):
            raise InputError(f"{name}: models keep no state between the requests of a sequence.")
    return InferenceRequest(
        model,
        _arrays(model, message, raw),
        message.id,
        value_of(parameters, "priority", 0),
        value_of(parameters, "timeout", 0),
        [one.name for one in message.outputs],
    )


def value_of(parameters: Mapping[str, InferParameter], name: str, default: object = None) -> object:
    """The value of a parameter, whatever its type."""
    if name not in parameters:
        return default
    found = parameters[name]
    field = found.WhichOneof("parameter_choice")
    return default if field is None else getattr(found, field)


def _arrays(
    model: ModelDescription, message: ModelInferRequest, raw: RawTensors
) -> dict[str, Array]:
    inputs = message.inputs
    model.require_inputs([one.name for one in inputs])
    if raw and len(raw) != len(inputs):
        raise InputError(
            f"{model.name}: got {len(raw)} raw_input_contents for {len(inputs)} inputs, expected "
            "one for each."
        )
    return {one.name: _array(model, one, raw[at] if raw else None) for at, one in enumerate(inputs)}


def _array(
    model: ModelDescription,
    given: ModelInferRequest.InferInputTensor,
    raw: memoryview | bytes | None,
) -> Array:
    if _SHARED in given.parameters:
        raise UnsupportedCall("shared memory is not offered by this server.")
    tensor = model.input(given.name)
    shape = tuple(given.shape)
    size = tensor.require(model.name, given.datatype, shape)
    if raw is None:
        return typed_array(tensor, shape, given.contents)
    if given.HasField("contents"):
        raise InputError(f"the input '{given.name}' has raw and typed contents: send one.")
    return _raw_array(tensor, shape, size, raw)


def _raw_array(
    tensor: TensorDescription, shape: tuple[int, ...], size: int, raw: memoryview | bytes
) -> Array:
    if len(raw) != size:
        raise InputError(
            f"the input '{tensor.name}' has {len(raw)} bytes, expected {size} for "
            f"{tensor.datatype} of the shape {list(shape)}."
        )
    return np.ndarray(shape, tensor.dtype, raw)
