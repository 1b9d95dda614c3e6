"""Order source and order server: give a rank its orders, and carry them out."""

from __future__ import annotations

from typing import Protocol, TypeAlias

from ...comm.serving.orders import Answer, ModelReport, Order, OutputBuffer, Run, Switch
from ...comm.serving.steps import DecoderStep

OrderToDo: TypeAlias = Run | Switch | DecoderStep


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


class OrderServer(Protocol):
    """Carries out orders, which one thread gives it; one other asks for a `reply`."""

    report: ModelReport

    def carry_out(self, number: int, order: OrderToDo, orders: OrderSource) -> None:
        """Carry out one order and answer it, whatever happens."""

    def reply(self, question: bytes) -> bytes:
        """Do what is asked beside the orders, whatever happens."""
