"""Spread orders: gives each order of a replica to all hosts of its ranks."""

from __future__ import annotations

from collections.abc import Mapping

from ...comm.serving.caller_slots import CallerSlots
from ...comm.serving.orders import Order, OutputBuffer
from .remote_orders import RemoteOrders


class SpreadOrders:
    """See OrderOutlet."""

    def __init__(self, by_rank: Mapping[int, RemoteOrders]) -> None:
        """`by_rank` has the orders of each rank's host."""
        self._by_rank = by_rank
        self._hosts = list(dict.fromkeys(by_rank.values()))

    def give(self, number: int, order: Order) -> None:
        """See OrderOutlet.give."""
        for host in self._hosts:
            host.give(number, order)

    def wait(self, slots: CallerSlots, slot: int) -> None:
        """See OrderOutlet.wait: answers come over several connections, each read by its thread."""
        slots.wait(slot)

    @property
    def round_trip(self) -> float:
        """See OrderOutlet."""
        return max(host.round_trip for host in self._hosts)

    def grant(self, number: int, rank: int, room: OutputBuffer) -> None:
        """See OrderOutlet.grant."""
        self._by_rank[rank].grant(number, rank, room)

    def release(self, number: int) -> None:
        """See OrderOutlet.release."""
        for host in self._hosts:
            host.release(number)
