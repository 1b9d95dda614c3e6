"""The inputs of a request: checked against the model, and in the memory that the ranks read."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from types import TracebackType
from typing import Any, Protocol

import numpy as np

from ...comm.arrays import Array
from ...comm.errors import InputError, RankmeshError, UsageError
from ...comm.request_memory.tensor_arena import ArenaRegion
from ...comm.serving.tensor_place import Place, place_of
from ...comm.serving.tensor_spec import TensorLayout, TensorSpec, dtype_named
from ...comm.text import counted
from .given_arrays import checked, handed
from .request_inputs import HandedInputs, Inputs, RequestInputs


class NoRoomYet(RankmeshError):
    """There is memory only after a wait, which the thread of an event loop must not do."""


class TensorMemory(Protocol):
    """Memory that ranks read."""

    def allocate(self, size: int) -> ArenaRegion:
        """A region of `size` bytes. Raises OutOfMemory, NoRoomYet."""


class InputSpecs:
    """Inputs of a model: checks the values that callers give, and makes Inputs of them."""

    def __init__(self, path: str, specs: Sequence[TensorSpec], arena: TensorMemory) -> None:
        self._path, self.specs, self._arena = path, specs, arena
        stored = [spec.stored for spec in specs]
        self._dtypes = [dtype_named(spec.dtype) for spec in stored]
        self._names = [spec.name for spec in specs]
        self._fixed = TensorLayout.declared(stored)
        self._strings = [position for position, spec in enumerate(specs) if spec.strings]
        self._defaults = {spec.name: spec.default_array for spec in specs if spec.default}
        self._required = [name for name in self._names if name not in self._defaults]

    def room(self, shapes: Mapping[str, Sequence[int]]) -> Inputs:
        """Shared memory for inputs that the caller writes in place; `shapes` names those that the
        model leaves open.
        """
        shaped = self.shapes(shapes)
        inputs = self.laid_out(shaped)
        for array, name in zip(inputs.arrays, self._names, strict=True):
            if name in self._defaults and array.shape == self._defaults[name].shape:
                array[...] = self._defaults[name]
        return inputs

    def shapes(self, asked: Mapping[str, Sequence[int]]) -> list[tuple[int, ...]]:
        """The shapes of all inputs, in order; `asked` names those that the model leaves open.

        Raises InputError.
        """
        unknown = asked.keys() - {spec.name for spec in self.specs}
        if unknown:
            raise InputError(f"{self._path}: has no input '{min(unknown)}', but {self._names}.")
        return [self._shape(spec, asked.get(spec.name)) for spec in self.specs]

    def copied(self, given: Mapping[str, Any] | Sequence[Any]) -> Inputs:
        """The given arrays, by name or in the model's order, in shared memory; InputError where
        they do not fit.
        """
        arrays = self.ordered(given)
        inputs = self.laid_out([array.shape for array in arrays])
        inputs.fill(arrays)
        return inputs

    def handed_on(self, given: Mapping[str, Array]) -> RequestInputs:
        """The given arrays where they lie in the arena; one that does not is copied there.

        Raises InputError where they do not fit.
        """
        arrays = self._in_order(given, handed)
        places = []
        for index, array in enumerate(arrays):
            place = place_of(array)
            if place is None:
                region = self._arena.allocate(array.nbytes)
                arrays[index] = region.array(0, array.dtype, array.shape)
                arrays[index][...] = array
                place = Place(region, region.offset)
            places.append(place)
        return HandedInputs(arrays, places)

    def laid_out(self, shapes: Sequence[tuple[int, ...]]) -> Inputs:
        """Shared memory for inputs of these shapes, in the model's order."""
        layout = self.layout(shapes)
        return Inputs(self._arena.allocate(layout.size), layout)

    def layout(self, shapes: Sequence[tuple[int, ...]]) -> TensorLayout:
        """Where inputs of these shapes, in the model's order, lie in their memory."""
        return self._fixed or TensorLayout.of(shapes, self._dtypes)

    def packed(
        self, shapes: Mapping[str, tuple[int, ...]], starts: Mapping[str, int]
    ) -> PackedInputs:
        """Inputs of these shapes, by name, each from its start in a message on."""
        missing = {n: array for n, array in self._defaults.items() if n not in shapes}
        ordered = [missing[name].shape if name in missing else shapes[name] for name in self._names]
        layout = self._fixed or replace(self.layout(ordered), common=True)
        found = [missing[name] if name in missing else starts[name] for name in self._names]
        return PackedInputs(self._arena, layout, found)

    def ordered(self, given: Mapping[str, Any] | Sequence[Any]) -> list[Array]:
        """The given arrays in the model's order, strings packed; InputError where they do not
        fit.
        """
        return self._in_order(given, checked)

    def _in_order(
        self,
        given: Mapping[str, Any] | Sequence[Any],
        check: Callable[[str, TensorSpec, np.dtype[Any], Any], Array],
    ) -> list[Array]:
        """The given arrays in the model's order, each as `check` returns it."""
        if type(given) is not tuple and isinstance(given, Mapping):
            known = sum(name in given for name in self._names)
            if len(given) != known or not all(name in given for name in self._required):
                raise InputError(
                    f"{self._path}: got the inputs {list(given)}, expected {self._expected}."
                )
            given = [given[n] if n in given else self._defaults[n] for n in self._names]
        if len(self._required) <= len(given) < len(self.specs):
            given = [*given, *(self._defaults[name] for name in self._names[len(given) :])]
        if len(given) != len(self.specs):
            raise InputError(
                f"{self._path}: got {counted(len(given), 'input')}, expected {len(self.specs)}: "
                f"{self._names}."
            )
        arrays = []
        for index, value in enumerate(given):
            arrays.append(check(self._path, self.specs[index], self._dtypes[index], value))
        return arrays

    @property
    def _expected(self) -> str:
        """The names of the inputs, for messages."""
        optional = f", and optionally {list(self._defaults)}" if self._defaults else ""
        return f"{self._required}{optional}"

    def require_strings(self, inputs: Inputs) -> None:
        """InputError where packed strings, among inputs that lie in memory already, do not fit."""
        for position in self._strings:
            array = inputs.arrays[position]
            handed(self._path, self.specs[position], array.dtype, array)

    def _shape(self, spec: TensorSpec, asked: Sequence[int] | None) -> tuple[int, ...]:
        if spec.strings:
            raise InputError(
                f"{self._path}: the input '{spec.name}' has strings, whose bytes are not known "
                "before: give arrays instead of buffers."
            )
        own = spec.shape if spec.default is None else spec.default.shape
        shape = own if asked is None else tuple(asked)
        if shape is None or min(shape, default=0) < 0:
            raise InputError(
                f"{self._path}: the input '{spec.name}' may have any size: name its shape, for "
                "instance "
                f"buffers({spec.name}=(1, 128))."
            )
        if not spec.fits(shape):
            raise InputError(
                f"{self._path}: the input '{spec.name}' cannot have the shape {list(shape)}, "
                "expected "
                f"{list(spec.shape or ())} (-1: any)."
            )
        return shape


class PackedInputs:
    """Inputs that come as bytes of a message: their places are found once, for many messages."""

    def __init__(
        self, arena: TensorMemory, layout: TensorLayout, starts: Sequence[int | Array]
    ) -> None:
        """`starts` tell where each input, in the model's order, begins in a message; or they are
        the inputs that none has.
        """
        self._arena, self._layout = arena, layout
        places = list(zip(layout.parts, starts, strict=True))
        self._moves = sorted(
            (start, start + part.size, part.offset)
            for part, start in places
            if isinstance(start, int)
        )
        self._defaults = [
            (part.offset, array.tobytes()) for part, array in places if not isinstance(array, int)
        ]

    def copied(self, message: bytes | memoryview) -> Inputs:
        """The inputs of a message, in shared memory. Raises OutOfMemory, NoRoomYet."""
        region = self._room()
        for start, end, offset in self._moves:
            region.write(offset, message[start:end])
        return Inputs(region, self._layout)

    def room(self) -> tuple[Inputs, list[memoryview]]:
        """Shared memory for the inputs of a message, and its parts in the order of the message.
        Raises OutOfMemory, NoRoomYet.
        """
        region = self._room()
        memory = region.contents()
        parts = [memory[offset : offset + end - start] for start, end, offset in self._moves]
        return Inputs(region, self._layout), parts

    def _room(self) -> ArenaRegion:
        """Memory for the inputs, with those that no message has."""
        region = self._arena.allocate(self._layout.size)
        for offset, data in self._defaults:
            region.write(offset, data)
        return region


class ForeignBuffers(UsageError):
    """Buffers that were made for another model, or for one that was loaded again since."""


class Buffers(Mapping[str, Array]):
    """One array per input, by name, to be written before each request that uses them; a context
    manager.

    An output that is an input handed on is the same memory.
    """

    def __init__(self, specs: InputSpecs, inputs: Inputs) -> None:
        """`inputs` of the model of `specs`."""
        self._specs, self._positions = (
            specs,
            {spec.name: position for position, spec in enumerate(specs.specs)},
        )
        self._inputs: Inputs | None = inputs

    def taken(self, specs: InputSpecs) -> Inputs:
        """The inputs of a request of the model of `specs`; UsageError for another's, and after the
        `with` block.
        """
        if specs is not self._specs:
            raise ForeignBuffers(
                "these buffers belong to another model or orchestrator: ask this one for its own."
            )
        return self._open()

    def _open(self) -> Inputs:
        if self._inputs is None:
            raise UsageError(
                "these buffers were given back at the end of their with block: ask for others."
            )
        return self._inputs

    def __getitem__(self, name: str) -> Array:
        return self._open().arrays[self._positions[name]]

    def __iter__(self) -> Iterator[str]:
        return iter(self._positions)

    def __len__(self) -> int:
        return len(self._positions)

    def __enter__(self) -> Buffers:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._inputs = None


def are_by_name(value: Any) -> bool:
    """Whether a value is inputs by name; asking an abstract class would take far longer."""
    kind = type(value)
    return kind is not np.ndarray and (
        kind is dict or kind is Buffers or isinstance(value, Mapping)
    )
