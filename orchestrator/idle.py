"""Memory that requests needed goes back to the system when none come for a while."""

from __future__ import annotations

from ..comm.serving.tensor_arena import OwnedArena
from .loop import Loop


class IdleTrim:
    """Looks at an arena every `seconds` and frees what nobody holds, once after each time that it was in use."""

    def __init__(self, arena: OwnedArena, loop: Loop, seconds: float) -> None:
        self._arena, self._loop, self._seconds = arena, loop, seconds
        self._seen = self._trimmed = 0
        loop.call_soon(self._arm)

    def _arm(self) -> None:
        self._loop.call_later(self._seconds, self._look)

    def _look(self) -> None:
        count = self._arena.allocations
        if count == self._seen and count != self._trimmed:
            self._arena.trim()
            self._trimmed = count
        self._seen = count
        self._arm()
