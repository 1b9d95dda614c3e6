"""Transfers of tensors: between regions of clients, and the memory that ranks read and write."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from ....comm.arrays import Array
from ...requests.inputs import Buffers
from ..catalog import ModelDescription, TensorDescription
from ..datatypes import bytes_of, sent_elements, strings_in
from ..inference import InferenceAnswer, InferenceService
from .shared_tensor import SharedTensor

_LARGE = 1 << 20
"""Bytes from which on threads copy them: the loop answers others meanwhile."""

_THREADS = min(2, len(os.sched_getaffinity(0)))
"""How many threads copy one tensor: the kernel does the work, so they run at once."""

Copy = tuple[Callable[[memoryview, int], None], memoryview]
"""Memory, and a function that copies a part of it, which begins at so many bytes of the whole."""

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
    copies = [(place.read, bytes_of(inputs[name])) for name, (_, place) in shared.items()]
    await _copied(copies, inputs)
    return _with_strings(model, inputs, shared)


async def write_outputs(answer: InferenceAnswer, places: Mapping[str, SharedTensor]) -> None:
    """Write the outputs that have places into their regions. Raises InputError."""
    copies: list[Copy] = []
    for name, place in places.items():
        data = memoryview(sent_elements(answer.outputs[name]))
        place.require_room(name, len(data))
        copies.append((place.write, data))
    await _copied(copies, answer)


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


async def _copied(copies: Sequence[Copy], owner: object) -> None:
    """Make all copies; of large tensors each thread copies its part.

    The threads keep the owner of the memory: they go on where the request is cancelled, and until
    their end no other request may have it.
    """
    if sum(len(memory) for _, memory in copies) < _LARGE:
        return _copy_part(copies, owner, 0, 1)
    count = _THREADS
    parts = [asyncio.to_thread(_copy_part, copies, owner, part, count) for part in range(count)]
    await asyncio.gather(*parts)


def _copy_part(copies: Sequence[Copy], owner: object, part: int, parts: int) -> None:
    """Make one of the equal parts of each copy, of memory that `owner` keeps."""
    for copy, memory in copies:
        start = len(memory) * part // parts
        copy(memory[start : len(memory) * (part + 1) // parts], start)
