"""Output places: keep the outputs of an answer in the memory of tensors, and tell where."""

from __future__ import annotations

from collections.abc import Sequence

from ...comm.arrays import Array
from ...comm.request_memory.owned_arena import OwnedArena
from ..requests.request import Outputs, Result
from .messages import OutputPlace


class PlacedAnswer:
    """The outputs of one answer in the memory of tensors, which stay there with this object."""

    __slots__ = ("_kept", "outputs")

    def __init__(self, result: Result, arena: OwnedArena) -> None:
        """Outputs that are elsewhere are copied there. Raises OutOfMemory."""
        self._kept: list[Array] = []
        ranks: Sequence[Outputs] = [result] if isinstance(result, dict) else result
        self.outputs = [
            [self._placed(name, array, arena) for name, array in one.items()] for one in ranks
        ]

    def _placed(self, name: str, array: Array, arena: OwnedArena) -> OutputPlace:
        offset = arena.offset_of(array)
        if offset is None:
            array = _copied(array, arena)
            offset = arena.offset_of(array)
            assert offset is not None  # it was allocated there
        self._kept.append(array)
        return OutputPlace(name, array.dtype.name, array.shape, offset)


def _copied(array: Array, arena: OwnedArena) -> Array:
    room = arena.allocate(array.nbytes).array(0, array.dtype, array.shape)
    room[...] = array
    return room
