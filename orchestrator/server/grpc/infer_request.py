"""Inference requests in gRPC: a message and its raw contents as a request for the service."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from ....comm.arrays import Array
from ....comm.errors import InputError
from ..catalog import ModelDescription, TensorDescription
from ..datatypes import strings_in
from ..inference import InferenceRequest
from ..shared_memory.client_regions import ClientRegions
from ..shared_memory.shared_tensor import OFFSET, REGION, SIZE, SharedTensor
from ..shared_memory.transfers import SharedInputs
from .contents.typed_contents import typed_array
from .protocol.inference import InferParameter, ModelInferRequest

RawTensors = Sequence[memoryview | bytes]
_CONTROLS = ("sequence_id", "sequence_start", "sequence_end")


def inference_request(
    model: ModelDescription, message: ModelInferRequest, raw: RawTensors, shared: SharedInputs
) -> InferenceRequest:
    """The request of a message whose raw contents are `raw`, without the inputs that are in shared
    memory. Raises InputError.
    """
    parameters = message.parameters
    for name in _CONTROLS if parameters else ():
        if value_of(parameters, name):
            raise InputError(f"{name}: models keep no state between the requests of a sequence.")
    return InferenceRequest(
        model,
        _arrays(model, message, raw, shared),
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


def shared_inputs(
    model: ModelDescription, message: ModelInferRequest, regions: ClientRegions
) -> SharedInputs:
    """The inputs of a message that are in shared memory. Raises InputError."""
    found = {}
    for one in message.inputs:
        place = place_of(one.parameters, regions) if one.parameters else None
        if place is not None:
            shape = tuple(one.shape)
            size = model.input(one.name).require(model.name, one.datatype, shape)
            place.require(one.name, size)
            if one.HasField("contents"):
                raise InputError(
                    f"the input '{one.name}' is in shared memory, and in the message: give one."
                )
            found[one.name] = shape, place
    return found


def place_of(
    parameters: Mapping[str, InferParameter], regions: ClientRegions
) -> SharedTensor | None:
    """Where a tensor with these parameters is in shared memory; None where it is not."""
    return regions.tensor(
        value_of(parameters, REGION), value_of(parameters, OFFSET), value_of(parameters, SIZE)
    )


def _arrays(
    model: ModelDescription, message: ModelInferRequest, raw: RawTensors, shared: SharedInputs
) -> dict[str, Array]:
    model.require_inputs([one.name for one in message.inputs])
    inputs = [one for one in message.inputs if one.name not in shared]
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
    tensor = model.input(given.name)
    shape = tuple(given.shape)
    size = tensor.require(model.name, given.datatype, shape)
    if raw is None:
        return typed_array(tensor, shape, given.contents)
    if given.HasField("contents"):
        raise InputError(f"the input '{given.name}' has raw and typed contents: send one.")
    return _raw_array(tensor, shape, size, raw)


def _raw_array(
    tensor: TensorDescription, shape: tuple[int, ...], size: int | None, raw: memoryview | bytes
) -> Array:
    if size is None:
        return strings_in(raw, tensor.name, shape)
    if len(raw) != size:
        raise InputError(
            f"the input '{tensor.name}' has {len(raw)} bytes, expected {size} for "
            f"{tensor.datatype} of the shape {list(shape)}."
        )
    return np.ndarray(shape, tensor.dtype, raw)
