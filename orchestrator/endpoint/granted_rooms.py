"""Granted rooms: memory of the tensor arena that one connected program may write."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ...comm.errors import InputError
from ...comm.request_memory.owned_arena import OwnedArena, Region
from ..requests.inputs import Buffers, InputSpecs
from ..requests.request_inputs import Inputs


class Misuse(Exception):
    """A connected program breaks the rules of the endpoint: it is sent away."""


class GrantedRooms:
    """The rooms of one program by their offsets.

    Requests keep theirs until their end, also where the program has returned them or is gone.
    """

    def __init__(self, arena: OwnedArena) -> None:
        self._arena = arena
        self._rooms: dict[int, Region] = {}

    def grant(self, size: int) -> Region:
        """A further room. Raises OutOfMemory."""
        room = self._arena.allocate(size)
        self._rooms[room.offset] = room
        return room

    def returned(self, offsets: Iterable[int]) -> None:
        """The program uses these rooms no more."""
        for offset in offsets:
            if self._rooms.pop(offset, None) is None:
                raise Misuse(f"got the return of memory at {offset}, which it does not have")

    def close(self) -> None:
        """The program is gone."""
        self._rooms.clear()

    def inputs(self, specs: InputSpecs, offset: int, shapes: Sequence[tuple[int, ...]]) -> Buffers:
        """The inputs of a request of these shapes, in the room at `offset`.

        Raises InputError where the model takes no such inputs.
        """
        room = self._rooms.get(offset)
        if room is None:
            raise Misuse(f"got a request with memory at {offset}, which it does not have")
        if len(shapes) != len(specs.specs):
            raise InputError(f"got {len(shapes)} inputs, expected {len(specs.specs)}.")
        for spec, shape in zip(specs.specs, shapes, strict=True):
            if not spec.stored.fits(shape):
                raise InputError(
                    f"the input '{spec.name}' has the shape {list(shape)}, expected "
                    f"{list(spec.shape or ())} (-1: any)."
                )
        layout = specs.layout(shapes)
        if layout.size > room.size:
            raise Misuse(f"got inputs of {layout.size} bytes in memory of {room.size}")
        inputs = Inputs(room, layout)
        specs.require_strings(inputs)
        return Buffers(specs, inputs)
