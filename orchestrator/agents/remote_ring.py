"""Remote ring: the orders of ranks on another host, and their answers, as the scheduler sees them.

The ring is memory of the orchestrator alone. Each order is sent to the agent as well. The agent's
answers are written into the ring, in the place of ranks.
"""

from __future__ import annotations

from typing import Protocol

from ...comm.serving.caller_slots import NO_SLOT, CallerSlots
from ...comm.serving.orders import Order, OutputBuffer, decode_order
from ...comm.serving.ring import Ring


class OrderOutlet(Protocol):
    """Takes the orders of a ring to where the ranks are; only `wait` waits."""

    def give(self, number: int, order: Order) -> None:
        """The ranks are to carry out an order."""

    def wait(self, slots: CallerSlots, slot: int) -> None:
        """Wait at a slot for a notification, which answers of the ranks bring."""

    def grant(self, number: int, rank: int, room: OutputBuffer) -> None:
        """A rank gets the room that it has asked for."""

    def release(self, number: int) -> None:
        """Ranks that hold after an order go on."""

    @property
    def round_trip(self) -> float:
        """Seconds to the ranks and back at least; 0.0 where that is not known."""


class RemoteRing(Ring):
    """See Ring."""

    def __init__(self, fd: int, bell: int, seats: CallerSlots, outlet: OrderOutlet) -> None:
        super().__init__(fd, bell, seats)
        self._outlet = outlet

    def give(self, number: int, order: bytes, seat: int = NO_SLOT) -> None:
        """See Ring.give."""
        super().give(number, order, seat)
        self._outlet.give(number, decode_order(order))

    def wait(self, seat: int) -> None:
        """See Ring.wait."""
        self._outlet.wait(self._seats, seat)

    @property
    def round_trip(self) -> float:
        """See Ring.round_trip."""
        return self._outlet.round_trip

    def recall(self, number: int) -> bool:
        """See Ring.recall: what was sent to another host is not taken back."""
        return False

    def release(self, number: int) -> None:
        """See Ring.release."""
        super().release(number)
        self._outlet.release(number)

    def grant(self, number: int, rank: int, room: OutputBuffer) -> None:
        """See Ring.grant."""
        super().grant(number, rank, room)
        self._outlet.grant(number, rank, room)
