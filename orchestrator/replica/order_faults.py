"""Order faults: the error that counts when ranks fail in an order, and whether they can go on."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence

from ...comm.errors import CollectiveAborted, RankmeshError, error_named
from ...comm.serving.order_state import OrderState
from ...comm.serving.orders import Answer, InvalidRankData
from ...comm.serving.ring import Ring
from ..scheduling.batch import InflightOrder
from .incarnation import Incarnation

_LOOK = 0.1
"""Seconds between looks."""


class RemoteTraceback(Exception):
    """The traceback of an error in a rank's process; the cause of the error that callers get."""

    def __init__(self, rank: int, trace: str) -> None:
        super().__init__(f"on rank {rank}:\n{trace}")


def fault_of(answers: Mapping[int, Answer], world_size: int) -> RankmeshError | None:
    """The error among the ranks' answers that tells most; None where no rank has failed.

    An error that only follows another rank's comes last.
    """
    faults = [
        (answer.error == CollectiveAborted.__name__, rank)
        for rank, answer in answers.items()
        if answer.error
    ]
    if not faults:
        return None
    _, rank = min(faults)
    text = answers[rank].text
    named = text if world_size == 1 or f"rank {rank}" in text else f"rank {rank}: {text}"
    error = error_named(answers[rank].error, named)
    if answers[rank].trace:
        error.__cause__ = RemoteTraceback(rank, answers[rank].trace)
    return error


def follows_another(fault: RankmeshError) -> bool:
    """Whether the fault of an order only tells that another rank, or the way to it, is gone."""
    return isinstance(fault, CollectiveAborted)


def in_step(answers: Collection[Answer]) -> bool:
    """Whether all ranks have finished the same collectives, and can take the next order."""
    return all(answer.ended for answer in answers) or not any(answer.entered for answer in answers)


class Stalemate:
    """Calls back once the ranks that have not answered an order all wait in collectives.

    They wait for a rank that has failed and will not come; until then they may fail in the same
    way, or end.
    """

    def __init__(self, incarnation: Incarnation, number: int, reached: Callable[[], None]) -> None:
        """Watch the order `number`."""
        self._incarnation = incarnation
        self._number = number
        self._reached = reached
        self._before: object = None
        self._timer = incarnation.call_later(_LOOK, self._look)

    def forget(self) -> None:
        """Look no more: all have answered, or the incarnation is over."""
        self._timer.cancel()

    def _look(self) -> None:
        ring = self._incarnation.ring
        silent = [
            rank
            for rank in range(ring.world_size)
            if ring.state(self._number, rank) is not OrderState.ANSWERED
        ]
        progress = [self._incarnation.progress(rank) for rank in silent]
        where = [one.entered for one in progress]
        if silent and where == self._before and all(one.waiting for one in progress):
            self._reached()
        else:
            self._before = where
            self._timer = self._incarnation.call_later(_LOOK, self._look)


def running_order(ring: Ring, orders: Sequence[InflightOrder], rank: int) -> list[InflightOrder]:
    """The order that a rank was carrying out: the first that it has not answered correctly."""
    given = (order for order in orders if order.number < ring.given)
    return next(([order] for order in given if not _is_answered(ring, order, rank)), [])


def _is_answered(ring: Ring, order: InflightOrder, rank: int) -> bool:
    try:
        if ring.state(order.number, rank) is not OrderState.ANSWERED:
            return False
        answer = ring.answer(order.number, rank)
        if not answer.error:
            order.check(rank, answer)
    except InvalidRankData:
        return False
    return True
