"""Transfers of tensors: between regions of clients, and the memory that ranks read and write."""

from __future__ import annotations

import asyncio
import os
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress

import numpy as np

from ....comm.arrays import Array
from ....comm.host.aligned_mapping import LARGE_PAGE
from ....comm.request_memory.tensor_arena import FilePlace, file_place
from ...requests.inputs import Buffers
from ..catalog import ModelDescription, TensorDescription
from ..datatypes import bytes_of, sent_elements, strings_in
from ..http.exchange import Part
from ..inference import InferenceAnswer, InferenceService
from .client_region import LARGE_COPY
from .copy_helper import CopyHelper
from .shared_tensor import SharedTensor

_THREADS = min(2, len(os.sched_getaffinity(0)))
"""How many threads make the largest copies, while the loop answers others. The kernel does the
work, so they run at once."""

LOOP_COPY = 1 << 25
"""Bytes of copies of which the loop makes a part itself: some milliseconds. It would wait longer
for two threads to wake than it is busy with half of the bytes."""

_HELPER = CopyHelper()
"""Makes the other part."""

CopyPart = Callable[[memoryview, int], None]
"""Copies a part of some memory, which begins at so many bytes of the whole."""

Copy = tuple[CopyPart, memoryview]
"""All of the memory, and what copies a part of it."""

Pieces = deque[tuple[CopyPart, memoryview, int]]
"""Parts of copies, and where each begins in the whole."""

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
    outputs = [memoryview(sent_elements(answer.outputs[name])) for name in places]
    await _copied(_writes(places.values(), places, outputs), answer)


def copy_from_places(
    places: Sequence[SharedTensor], parts: Sequence[memoryview], owner: object
) -> None:
    """Fill memory that `owner` keeps with the inputs at `places`, no more than LOOP_COPY in all.
    Raises InputError.
    """
    reads = [(place.read, part) for place, part in zip(places, parts, strict=True)]
    _copy_in_loop(reads, owner)


def copy_to_places(
    places: Sequence[SharedTensor], names: Sequence[str], outputs: Sequence[Part]
) -> None:
    """Write outputs, no more than LOOP_COPY in all, to `places`. Raises InputError."""
    _copy_in_loop(_writes(places, names, [memoryview(one) for one in outputs]), outputs)


def _writes(
    places: Iterable[SharedTensor], names: Iterable[str], outputs: Iterable[memoryview]
) -> list[Copy]:
    """The copies of outputs to places. InputError where one has no room."""
    copies: list[Copy] = []
    for place, name, data in zip(places, names, outputs, strict=True):
        place.require_room(name, len(data))
        copies.append((_writing(place, data), data))
    return copies


def _writing(place: SharedTensor, data: memoryview) -> CopyPart:
    """The function that copies parts of an output to its place. Where the ranks' file has it in
    large pages, it reads that file.
    """
    source = file_place(data) if len(data) >= LARGE_PAGE else None
    if source is None:
        return place.write
    descriptor, begin = source
    return lambda part, start: place.write(part, start, FilePlace(descriptor, begin + start))


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
    """Make all copies; of large tensors each thread takes the next piece until none is left.

    The threads keep the owner of the memory: they go on where the request is cancelled, and until
    their end no other request may have it.
    """
    if _size(copies) <= LOOP_COPY:
        return _copy_in_loop(copies, owner)
    pieces = _pieces(copies)
    await asyncio.gather(*[asyncio.to_thread(_copy_pieces, pieces, owner) for _ in range(_THREADS)])


def _copy_in_loop(copies: Sequence[Copy], owner: object) -> None:
    """Make copies in the thread of the loop, large ones with the helper; see `_copied`."""
    if _size(copies) < LARGE_COPY:
        return _copy_pieces(deque((copy, memory, 0) for copy, memory in copies), owner)
    pieces = _pieces(copies)
    helper = _HELPER.submit(_copy_pieces, pieces, owner)
    _copy_pieces(pieces, owner)
    if not helper.cancel():  # it has begun: at most one piece is not copied yet
        helper.result()


def _size(copies: Sequence[Copy]) -> int:
    return sum(len(memory) for _, memory in copies)


def _pieces(copies: Sequence[Copy]) -> Pieces:
    return deque(
        (copy, memory[start : start + LARGE_PAGE], start)
        for copy, memory in copies
        for start in range(0, len(memory), LARGE_PAGE)
    )


def _copy_pieces(pieces: Pieces, owner: object) -> None:
    """Make the copies that no other thread has begun, of memory that `owner` keeps."""
    with suppress(IndexError):
        while True:
            copy, memory, start = pieces.popleft()
            copy(memory, start)
