"""Regular tasks of the loop: memory that no request needs goes back to the system, callers that sleep are reminded."""

from __future__ import annotations

from ..comm.serving.seats import Seats
from ..comm.serving.tensor_arena import OwnedArena
from .loop import Loop

_SECOND = 1.0


class IdleTrim:
    """Looks at an arena every `seconds` and frees what nobody holds, once after each time that it was in use."""

    def __init__(self, arena: OwnedArena, loop: Loop, seconds: float) -> None:
        self._arena, self._loop, self._seconds = arena, loop, seconds
        self._seen = self._trimmed = (0, 0)
        loop.call_soon(self._arm)

    def _arm(self) -> None:
        self._loop.call_later(self._seconds, self._look)

    def _look(self) -> None:
        state = (self._arena.allocations, self._arena.used)
        if state == self._seen and state != self._trimmed:
            self._arena.trim()
            self._trimmed = state
        self._seen = state
        self._arm()


class Reminder:
    """Wakes the callers that sleep at their seats once a second, so that none misses an interrupt for longer."""

    def __init__(self, seats: Seats, loop: Loop) -> None:
        self._seats, self._loop = seats, loop
        loop.call_soon(self._arm)

    def _arm(self) -> None:
        self._loop.call_later(_SECOND, self._remind)

    def _remind(self) -> None:
        self._seats.remind()
        self._arm()
