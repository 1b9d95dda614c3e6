"""What one request leaves for the next: the values of parameters that a model assigns to."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]


class Slot:
    """One state: the array that holds it, and a second one that the next value is written to, made when it is needed.

    The first array is the file's own, read-only: it is never written to.
    """

    def __init__(self, initial: Array) -> None:
        self.now = initial
        self._spare: Array | None = None

    @property
    def spare(self) -> Array:
        """Room for the next value."""
        if self._spare is None or self._spare.shape != self.now.shape:
            self._spare = np.empty_like(self.now, order="C", subok=False)
        return self._spare

    def keep(self, array: Array) -> None:
        """Take `array`, which may be the spare room itself, as the value from now on."""
        if array is not self._spare and array.shape != self.now.shape:
            self.now, self._spare = array.copy(), None
            return
        if array is not self._spare:
            np.copyto(self.spare, array)
        self.now, self._spare = self.spare, (self.now if self.now.flags.writeable else None)


class States:
    """All states of one program: for each the plan's name of what a request finds, and of what it leaves."""

    def __init__(self, slots: Mapping[str, Slot], results: Mapping[str, str]) -> None:
        self._slots, self._results = slots, results

    def found(self) -> dict[str, Array]:
        """What the next request finds, by name."""
        return {name: slot.now for name, slot in self._slots.items()} if self._slots else {}

    def keep(self, values: Mapping[str, Array]) -> None:
        """Take what a request left among its `values`."""
        if not self._slots:
            return
        for slot, array in [(slot, values[self._results[name]]) for name, slot in self._slots.items()]:
            slot.keep(array)

    def take_from(self, other: States) -> None:
        """Go on with the values of another program of the same model."""
        for name, slot in self._slots.items():
            if name in other._slots:
                slot.keep(other._slots[name].now)

    def room(self) -> dict[str, Slot]:
        """The slots by the name of the value that they are to hold next, of those that only one state takes."""
        names = list(self._results.values())
        return {result: self._slots[name] for name, result in self._results.items() if names.count(result) == 1}
