"""Host ring: the orders of those ranks of a replica that run on this host."""

from __future__ import annotations

from collections.abc import Sequence

from .caller_slots import NO_SLOT, CallerSlots
from .order_state import AS_ORDERED_WORD
from .ring import Ring


class HostRing(Ring):
    """See Ring. Ranks keep their numbers: those of other hosts have answered from the beginning."""

    def __init__(self, fd: int, bell: int, seats: CallerSlots, absent: Sequence[int]) -> None:
        """`absent` are the ranks of other hosts."""
        super().__init__(fd, bell, seats)
        self._absent = absent

    def give(self, number: int, order: bytes, seat: int = NO_SLOT) -> None:
        """See Ring.give."""
        states = self._states[number % self.depth]
        for rank in self._absent:
            states[rank] = AS_ORDERED_WORD + number
        super().give(number, order, seat)
