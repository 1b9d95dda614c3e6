"""The live weights of one model in this process: the arrays of every edition."""

from __future__ import annotations

from collections.abc import Mapping

from .control import Edition
from .stored import Stored
from .weight_file import WeightFile


class Variable:
    """One weight: as exported and, once it was updated, in two more copies. `number` is its place in an Edition."""

    def __init__(self, number: int, exported: Stored) -> None:
        self.number = number
        self.copies: tuple[Stored, ...] = (exported,)


class Store:
    """The weights of one model, by the names that it has for them."""

    def __init__(self, variables: Mapping[str, Variable]) -> None:
        self._variables = dict(variables)
        self.index = {name: variable.number for name, variable in variables.items()}

    @classmethod
    def of_file(cls, exported: WeightFile) -> Store:
        """All weights of a file, numbered in its order."""
        return cls({name: Variable(number, arrays[0]) for number, (name, arrays) in enumerate(exported.arrays.items())})

    def add(self, spares: WeightFile) -> None:
        """Take the further copies of some weights."""
        for name, arrays in spares.arrays.items():
            variable = self._variables[name]
            variable.copies = (variable.copies[0], *arrays)

    def variable(self, name: str) -> Variable:
        """The weight that the model calls `name`."""
        return self._variables[name]

    def exported(self, name: str) -> Stored:
        """A weight as the model's file has it."""
        return self._variables[name].copies[0]

    def has(self, edition: Edition) -> bool:
        """Whether all copies that `edition` consists of are here."""
        return all(edition.copy_of(one.number) < len(one.copies) for one in self._variables.values())

    def arrays(self, edition: Edition) -> Mapping[str, Stored]:
        """The weights of an edition, by name."""
        return {name: one.copies[edition.copy_of(one.number)] for name, one in self._variables.items()}
