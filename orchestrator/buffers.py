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
        self._specs, self._positions = specs, {spec.name: position for position, spec in enumerate(specs.specs)}
        self._inputs: Inputs | None = specs.room(shapes)

    def taken(self, specs: InputSpecs) -> Inputs:
        """The inputs of a request of the model of `specs`; UsageError for another's, and after the `with` block."""
        if specs is not self._specs:
            raise UsageError("these buffers belong to another model or orchestrator: ask this one for its own.")
        return self._open()

    def _open(self) -> Inputs:
        if self._inputs is None:
            raise UsageError("these buffers were given back at the end of their with block: ask for others.")
        return self._inputs

    def __getitem__(self, name: str) -> Array:
        return self._open().arrays[self._positions[name]]

    def __iter__(self) -> Iterator[str]:
        return iter(self._positions)

    def __len__(self) -> int:
        return len(self._positions)

    def __enter__(self) -> Buffers:
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None,
                 trace: TracebackType | None) -> None:
        self._inputs = None
