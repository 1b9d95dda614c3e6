"""Transfers of tensors: between regions of clients, and the memory that ranks read and write."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping

import numpy as np

from ....comm.arrays import Array
from ....comm.errors import InputError
from ...requests.inputs import Buffers
from ..catalog import ModelDescription
from ..datatypes import bytes_of
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
    return inputs


async def write_outputs(answer: InferenceAnswer, places: Mapping[str, SharedTensor]) -> None:
    """Write the outputs that have places into their regions. Raises InputError."""
    tensors = []
    for name, place in places.items():
        if answer.model.outputs[name].strings:
            raise InputError(f"the output '{name}' is BYTES: it is not written to shared memory.")
        array = np.ascontiguousarray(answer.outputs[name])
        place.require_room(name, array.nbytes)
        tensors.append((place, bytes_of(array)))

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
        empty = {name: np.empty(shape, model.input(name).dtype) for name, shape in shapes.items()}
        return {**arrays, **empty}
    shapes |= {name: array.shape for name, array in arrays.items()}
    buffers = await service.buffers(model, shapes)
    for name, array in arrays.items():
        buffers[name].reshape(array.shape)[...] = array
    return buffers


async def _copied(copy: Callable[[], None], size: int) -> None:
    if size < _LARGE:
        copy()
    else:
        await asyncio.to_thread(copy)
