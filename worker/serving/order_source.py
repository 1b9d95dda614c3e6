"""Order source: gives a rank its orders, and takes the answers."""

from __future__ import annotations

from typing import Protocol

from ...comm.serving.orders import Answer, Order, OutputBuffer


class OrderSource(Protocol):
    """The ring of the orders, or the connection that brings them from another host."""

    def take(self, number: int, rank: int) -> Order | None:
        """Wait, as `rank`, for the order `number`; None where it has been recalled."""

    def reply(self, number: int, rank: int, answer: Answer) -> None:
        """Answer an order."""

    def hold(self, number: int, rank: int) -> None:
        """Wait, after an answer that is an error, until all ranks are in step."""

    def ask_for_room(self, number: int, rank: int, answer: Answer) -> OutputBuffer:
        """Wait for a buffer as large as `answer` needs."""
