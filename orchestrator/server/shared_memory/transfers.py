"""Transfers of tensors: between regions of clients, and the memory that ranks read and write."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping

import numpy as np

from ....comm.arrays import Array
from ...requests.inputs import Buffers
from ..catalog import ModelDescription, TensorDescription
from ..datatypes import bytes_of, sent_elements, strings_in
from ..inference import InferenceAnswer, InferenceService
from .shared_tensor import SharedTensor

_LARGE = 1 << 20
"""Bytes from which on a thread copies them: the loop answers others meanwhile."""

SharedInputs = Mapping[str, tuple[tuple[int, ...], SharedTensor]]
"""Shape and place of each input that is in shared memory, by name."""


async def with_shared_inputs(
    service: InferenceService,
    model: ModelDescription,
    arrays: Mapping[str, Array],
    shared: SharedInputs,
) -> dict[str, Array] | Buffers:
    """All inputs of a request: the arrays, and those that clients have in regions."""
    inputs = await _room(service, model, arrays, shared)

    def read() -> None:
        # It keeps `inputs`: a thread goes on where the request is cancelled, and until its end no
        # other request may have this memory.
        for name, (_, place) in shared.items():
            place.read(bytes_of(inputs[name]))

    await _copied(read, sum(place.size for _, place in shared.values()))
    return _with_strings(model, inputs, shared)


async def write_outputs(answer: InferenceAnswer, places: Mapping[str, SharedTensor]) -> None:
    """Write the outputs that have places into their regions. Raises InputError."""
    tensors = []
    for name, place in places.items():
        data = memoryview(sent_elements(answer.outputs[name]))
        place.require_room(name, len(data))
        tensors.append((place, data))

    def write() -> None:
        for place, data in tensors:
            place.write(data)

    await _copied(write, sum(len(data) for _, data in tensors))


async def _room(
    service: InferenceService,
    model: ModelDescription,
    arrays: Mapping[str, Array],
    shared: SharedInputs,
) -> dict[str, Array] | Buffers:
    """Memory for all inputs, where possible that of the ranks; the arrays are in it."""
    shapes = {name: shape for name, (shape, _) in shared.items()}
    if not service.receives_in_place(model):
        empty = {name: _empty(model.input(name), *one) for name, one in shared.items()}
        return {**arrays, **empty}
    shapes |= {name: array.shape for name, array in arrays.items()}
    buffers = await service.buffers(model, shapes)
    for name, array in arrays.items():
        buffers[name].reshape(array.shape)[...] = array
    return buffers


def _empty(tensor: TensorDescription, shape: tuple[int, ...], place: SharedTensor) -> Array:
    """Memory for an input; of strings for their bytes."""
    return np.empty(place.size, np.uint8) if tensor.strings else np.empty(shape, tensor.dtype)


def _with_strings(
    model: ModelDescription, inputs: dict[str, Array] | Buffers, shared: SharedInputs
) -> dict[str, Array] | Buffers:
    """The inputs with strings in place of the bytes that regions have of them."""
    if isinstance(inputs, Buffers):  # there are none for strings
        return inputs
    strings = {
        name: strings_in(bytes_of(inputs[name]), name, shape)
        for name, (shape, _) in shared.items()
        if model.input(name).strings
    }
    return {**inputs, **strings}


async def _copied(copy: Callable[[], None], size: int) -> None:
    if size < _LARGE:
        copy()
    else:
        await asyncio.to_thread(copy)
