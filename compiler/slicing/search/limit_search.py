"""Limit search: the plan with the least predicted time whose ranks store at most a limit.

The limit of a rank's bytes is a row of the solver's program: no plan is missed, as plans between
two prices of a stored byte would be. Each plan is the fastest of those that store no more, so that
plans for two limits are never worse in both, as far as the solver comes in its time.
"""

from __future__ import annotations

import time
from dataclasses import replace

from .choice_task import SLACK, Choice, ChoiceTask
from .classes import classes_of
from .front import Front
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
        self._front = Front()
        task.step()

    def draft(self, room: float) -> Choice | None:
        """A fast choice, at most `room` times as large as the smallest one; None where it is not
        found at once.
        """
        limit = StorageLimit(int(room * self._task.least_bytes()), vectors=False)
        solution = self._program.solve(self._price, self._until(0.25), limit, at_once=True)
        return self._task.priced(solution) if solution is not None else None

    def choice(self) -> Choice:
        """The fastest choice that fits the memory; the one that needs least where none does."""
        memory = self._task.memory
        if memory is None:
            limit = self._search_near_smallest()
            found = self._front.fastest_of(limit)
            return found or self._front.smallest(lambda one: max(one.matrices))
        self._search_in(memory)
        found = self._front.fastest(self._task.fits)
        return found or self._front.smallest(lambda one: max(one.needed))

    def _search_near_smallest(self) -> int:
        """Search where shards are little larger than the smallest; the bytes that they may have."""
        for nbytes in self._task.targets():
            if self._within(StorageLimit(nbytes, vectors=False)) is not None:
                return nbytes
        nbytes = int(SLACK * max(self._smallest().prediction.matrices))
        self._within(StorageLimit(nbytes, vectors=False))
        return nbytes

    def _search_in(self, memory: int) -> None:
        """Search for the fastest choice that needs at most `memory`, with its activations."""
        fastest = self._within(None)
        if fastest is None or self._task.fits(fastest.prediction):
            return
        found = self._below(memory, fastest)
        if found is None:
            self._smallest()
            self._search_near_smallest()  # its activations may be fewer
            found = self._front.fastest(self._task.fits)
        if found is not None:
            self._grow(memory, found, fastest)

    def _below(self, memory: int, fastest: Choice) -> Choice | None:
        """A choice that fits, where weights leave room for the activations of faster ones."""
        left = memory - max(fastest.prediction.activations)
        for _ in range(_ROUNDS):
            found = self._within(StorageLimit(left, vectors=True)) if left > 0 else None
            if found is None or self._task.fits(found.prediction):
                return found
            left -= max(found.prediction.needed) - memory
        return None

    def _grow(self, memory: int, found: Choice, large: Choice) -> None:
        """Give the weights what the activations of a choice leave, as long as that is faster.

        `large` does not fit: the weights may then be at most halfway between the two.
        """
        most = memory
        for _ in range(_ROUNDS):
            left = min(memory - max(found.prediction.activations), most)
            grown = self._within(StorageLimit(left, vectors=True))
            if grown is None or grown.prediction.seconds >= found.prediction.seconds:
                return
            if self._task.fits(grown.prediction):
                found = grown
            else:
                large = grown
            most = (found.prediction.heaviest + large.prediction.heaviest) // 2

    def _within(self, limit: StorageLimit | None) -> Choice | None:
        """The fastest choice whose ranks store at most `limit`; None where there is none."""
        return self._solved(self._price, limit)

    def _smallest(self) -> Choice:
        """The choice with the fewest bytes, nearly."""
        found = self._solved(self._high, None)
        if found is None:
            raise TimeoutError("The solver found no plan.")
        return found

    def _solved(self, price: float, limit: StorageLimit | None) -> Choice | None:
        try:
            solution = self._program.solve(price, self._until(0.6), limit)
        except TimeoutError:
            if not self._front:
                raise
            return None
        finally:
            self._task.step()
        if solution is None:
            return None
        found = replace(self._task.priced(solution), search="solver")
        return self._front.add(replace(found, gap=None) if price == self._high else found)

    def _until(self, part: float) -> float:
        """When a part of the time that is left is over: other limits may follow."""
        return time.monotonic() + part * self._task.left
