"""Inputs that a caller writes where the ranks read them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from types import TracebackType
from typing import Any

from numpy.typing import NDArray

from ..comm.errors import UsageError
from .inputs import Inputs, InputSpecs

Array = NDArray[Any]


class Buffers(Mapping[str, Array]):
    """One array per input, by name, to be written before each request that uses them; a context manager.

    An output that is an input handed on is the same memory.
    """

    def __init__(self, specs: InputSpecs, shapes: Mapping[str, Sequence[int]]) -> None:
        self._names = [spec.name for spec in specs.specs]
        self._inputs: Inputs | None = specs.room(shapes)

    def taken(self) -> Inputs:
        """The inputs of a request; UsageError after the end of the `with` block."""
        if self._inputs is None:
            raise UsageError("these buffers were given back at the end of their with block: ask for others.")
        return self._inputs

    def __getitem__(self, name: str) -> Array:
        return self.taken().arrays[self._names.index(name)]

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)

    def __enter__(self) -> Buffers:
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None,
                 trace: TracebackType | None) -> None:
        self._inputs = None
