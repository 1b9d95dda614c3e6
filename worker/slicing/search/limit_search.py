"""Limit search: the plan with the least predicted time whose ranks store at most a limit.

The limit of a rank's bytes is a row of the solver's program: no plan is missed, as plans between
two prices of a stored byte would be.
"""

from __future__ import annotations

import time
from dataclasses import replace

from .choice_task import SLACK, Choice, ChoiceTask
from .classes import classes_of
from .solution import StorageLimit
from .solve import SliceProgram

_ROUNDS = 3
"""Limits of the weights that are tried: how large the activations are depends on the plan."""


class LimitSearch:
    """The search of one task. TimeoutError where the solver finds nothing in its time."""

    def __init__(self, task: ChoiceTask) -> None:
        self._task = task
        classes = classes_of(task.graph, task.found)
        self._program = SliceProgram(task.graph, task.found, classes, task.costs)
        self._price, _, self._high = task.prices()
        task.step()

    def draft(self, room: float) -> Choice | None:
        """A fast choice, at most `room` times as large as the smallest one; None where it is not
        found at once.
        """
        limit = StorageLimit(int(room * self._task.least_bytes()), vectors=False)
        solution = self._program.solve(self._price, self._until(0.25), limit, at_once=True)
        return self._task.priced(solution) if solution is not None else None

    def choice(self) -> Choice:
        """The fastest choice that fits the memory; the smallest one where none does."""
        memory = self._task.memory
        found = self._near_smallest() if memory is None else self._in(memory)
        return found or self._smallest()

    def _near_smallest(self) -> Choice | None:
        """The fastest choice that is little larger than the smallest."""
        for nbytes in self._task.targets():
            found = self._within(StorageLimit(nbytes, vectors=False))
            if found is not None:
                return found
        nbytes = int(SLACK * max(self._smallest().prediction.matrices))
        return self._within(StorageLimit(nbytes, vectors=False))

    def _in(self, memory: int) -> Choice | None:
        """The fastest choice that needs at most `memory` for weights and activations."""
        found = self._within(None)
        if found is None or max(found.prediction.needed) <= memory:
            return found
        left = memory - max(found.prediction.activations)
        for _ in range(_ROUNDS):
            found = self._within(StorageLimit(left, vectors=True)) if left > 0 else None
            if found is None or max(found.prediction.needed) <= memory:
                return found
            left -= max(found.prediction.needed) - memory
        return None

    def _within(self, limit: StorageLimit | None) -> Choice | None:
        """The fastest choice whose ranks store at most `limit`; None where there is none."""
        return self._solved(self._price, limit)

    def _smallest(self) -> Choice:
        """The choice with the fewest bytes, nearly."""
        found = self._solved(self._high, None)
        if found is None:
            raise TimeoutError("The solver found no plan.")
        return replace(found, gap=None)

    def _solved(self, price: float, limit: StorageLimit | None) -> Choice | None:
        solution = self._program.solve(price, self._until(0.6), limit)
        self._task.step()
        return self._task.priced(solution) if solution is not None else None

    def _until(self, part: float) -> float:
        """When a part of the time that is left is over: other limits may follow."""
        return time.monotonic() + part * self._task.left
