"""The live weights of one model in this process: the arrays of every edition."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from numpy.typing import NDArray

from .control import Edition
from .weight_file import WeightFile

Array = NDArray[Any]


class Store:
    """Weights by name, each as exported and, once it was updated, in two more copies."""

    def __init__(self, exported: WeightFile) -> None:
        self._copies: dict[str, tuple[Array, ...]] = dict(exported.arrays)
        self.index = {name: number for number, name in enumerate(self._copies)}

    def add(self, spares: WeightFile) -> None:
        """Take the further copies of some weights."""
        for name, arrays in spares.arrays.items():
            self._copies[name] = (self._copies[name][0], *arrays)

    def exported(self, name: str) -> Array:
        """A weight as the model's file has it."""
        return self._copies[name][0]

    def copies(self, name: str) -> tuple[Array, ...]:
        """All copies of a weight, the exported one first."""
        return self._copies[name]

    def has(self, edition: Edition) -> bool:
        """Whether all copies that `edition` consists of are here."""
        return all(edition.copy_of(number) < len(arrays) for number, arrays in enumerate(self._copies.values()))

    def arrays(self, edition: Edition) -> Mapping[str, Array]:
        """The weights of an edition, by name."""
        return {name: arrays[edition.copy_of(number)] for number, (name, arrays) in enumerate(self._copies.items())}
