"""Idle memory: gives back to the system what an arena does not need any more."""

from __future__ import annotations

from .owned_arena import OwnedArena

IDLE_SECONDS = 10.0
"""Between looks: without a request for so long, memory is given back."""


class IdleMemory:
    """Frees the unused memory of an arena, once after each time that the arena was in use."""

    def __init__(self, arena: OwnedArena) -> None:
        self._arena = arena
        self._seen = self._trimmed = (0, 0)

    def look(self) -> bool:
        """Free it, if the arena was not used since the last look; whether the arena is open."""
        arena = self._arena
        state = (arena.allocations, arena.used)
        if state == self._seen and state != self._trimmed:
            arena.trim()
            self._trimmed = state
        self._seen = state
        return arena.fd >= 0
