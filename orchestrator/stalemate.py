"""What to make of a group in which some ranks have failed in a work and others have not."""

from __future__ import annotations

from collections.abc import Callable, Collection

from ..comm.serving.orders import Answer
from ..comm.serving.ring import State
from .epoch import Epoch
from .loop import Loop

_LOOK = 0.1
"""Seconds between looks."""


def in_step(answers: Collection[Answer]) -> bool:
    """Whether all ranks of a group have finished the same collectives, so that the next order finds them so."""
    return all(answer.ended for answer in answers) or not any(answer.entered for answer in answers)


class Stalemate:
    """Calls back once all ranks that have not answered the order `number` wait in collectives, and none moves.

    They wait for the rank that has failed, which will not come; until then they may fail in the same way, or end.
    """

    def __init__(self, epoch: Epoch, number: int, loop: Loop, reached: Callable[[], None]) -> None:
        self._epoch, self._number, self._loop, self._reached = epoch, number, loop, reached
        self._before: object = None
        self._timer = loop.call_later(_LOOK, epoch.guarded(self._look))

    def forget(self) -> None:
        """Look no more: all have answered, or the epoch is over."""
        self._timer.cancel()

    def _look(self) -> None:
        ring, number = self._epoch.ring, self._number
        silent = [rank for rank in range(ring.world_size) if ring.state(number, rank) is not State.ANSWERED]
        progress = [self._epoch.progress(rank) for rank in silent]
        where = [one.entered for one in progress]
        if silent and where == self._before and all(one.waiting for one in progress):
            self._reached()
        else:
            self._before = where
            self._timer = self._loop.call_later(_LOOK, self._epoch.guarded(self._look))
