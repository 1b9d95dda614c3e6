"""TorchCall list: the torch calls of a graph in order, which read and write numbered slots."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from .registry import Compute, TorchOperator
from .tensors import WIDER, in_order, out_of_order, storage_of

NOTHING = 0
"""The slot of every omitted input."""
_FAILURES = (ArithmeticError, AttributeError, LookupError, RuntimeError, TypeError, ValueError)
"""The errors of functions of torch for inputs that they do not take."""


class TorchFailed(RuntimeError):
    """A call failed; the text names its node."""


@dataclass(slots=True)
class TorchCall:
    """One torch call: the slots that it reads and writes, and those that nothing reads after it."""

    label: str
    operator: TorchOperator
    function: Compute
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    dead: tuple[int, ...] = ()

    def made(self, values: Sequence[Any] | Mapping[int, Any]) -> Any:
        """The output, or the tuple of several. Raises TorchFailed, MemoryError."""
        arguments = [values[slot] for slot in self.inputs]
        try:
            return self.function(*arguments)
        except _FAILURES as error:
            if not _lacks_kernel(error):
                raise self._failed(error) from error
            self.function = _Widened(self.function, self.operator, error)
            return self.failing(arguments)

    def failing(self, arguments: list[Any]) -> Any:
        """As `made`, for the first call in wider dtypes."""
        try:
            return self.function(*arguments)
        except _FAILURES as error:
            raise self._failed(error) from error

    def _failed(self, error: Exception) -> Exception:
        if "can't allocate memory" in str(error) or isinstance(error, torch.OutOfMemoryError):
            return MemoryError(f"{self.label}: {error}")
        return TorchFailed(f"{self.label}: {error}")


def _lacks_kernel(error: Exception) -> bool:
    """Whether torch has no kernel for the dtype of the inputs; torch 2.6 tells most of it by its
    text alone.
    """
    return isinstance(error, NotImplementedError) or "not implemented for '" in str(error)


@dataclass(slots=True)
class _Widened:
    """A function of torch behind casts: for inputs of dtypes that it has no kernels for."""

    function: Compute
    operator: TorchOperator
    error: Exception

    def __call__(self, *inputs: Any) -> Any:
        given = [one.dtype for one in inputs if isinstance(one, torch.Tensor)]
        narrow = [dtype for dtype in given if dtype in WIDER]
        if not narrow:
            raise self.error
        if set(narrow) != {torch.bool}:  # else booleans are conditions and masks, and stay
            narrow = [dtype for dtype in narrow if dtype != torch.bool]
        back = {WIDER[dtype]: dtype for dtype in reversed(narrow)}
        made = self.function(*(self._wide(one, narrow) for one in inputs))
        if not isinstance(made, tuple):
            return self._narrow(made, back, 0)
        return tuple(self._narrow(one, back, at) for at, one in enumerate(made))

    def _wide(self, one: Any, narrow: Sequence[torch.dtype]) -> Any:
        if not isinstance(one, torch.Tensor) or one.dtype not in narrow:
            return one
        if one.dtype == torch.uint64 and self.operator.ordered:
            return in_order(one)
        return one.to(WIDER[one.dtype])

    def _narrow(self, one: Any, back: Mapping[torch.dtype, torch.dtype], at: int) -> Any:
        if one is None or at in self.operator.indices or one.dtype not in back:
            return one
        if back[one.dtype] == torch.uint64 and self.operator.ordered:
            return out_of_order(one)
        return one.to(back[one.dtype])


class CallList:
    """Calls, ready to run by any number of threads.

    `template` has the constants in their slots, and None in all others. `memory` has the addresses
    of what a result may be a view of: these constants, and those of branches and bodies.
    """

    def __init__(
        self,
        calls: Iterable[TorchCall],
        template: Sequence[Any],
        arguments: Sequence[int],
        results: Sequence[int],
        memory: Iterable[int] = (),
    ) -> None:
        self.calls = list(calls)
        self.template = list(template)
        self.arguments = arguments
        self.results = results
        own = (one for one in self.template if isinstance(one, torch.Tensor))
        self.memory = {*memory, *map(storage_of, own)}
        _note_last_uses(self.calls, {NOTHING, *results, *self.constants})

    @property
    def constants(self) -> Mapping[int, Any]:
        """The values that are known before a run, by slot."""
        return {slot: value for slot, value in enumerate(self.template) if value is not None}

    def run(self, inputs: Sequence[Any]) -> list[Any]:
        """The results for these inputs. Raises TorchFailed, MemoryError."""
        return self.run_on(self.template.copy(), inputs)

    def run_on(self, values: list[Any], inputs: Sequence[Any]) -> list[Any]:
        """As `run`; `values` are those of the template, or others in their place."""
        for slot, value in zip(self.arguments, inputs, strict=True):
            values[slot] = value
        for call in self.calls:
            made = call.made(values)
            if len(call.outputs) == 1 and not isinstance(made, tuple):
                values[call.outputs[0]] = made
            else:
                store(values, call, made)
            for slot in call.dead:
                values[slot] = None
        return [values[slot] for slot in self.results]


def store(values: list[Any] | dict[int, Any], call: TorchCall, made: Any) -> None:
    """Put what a call made into its slots; outputs that nothing wants are slot 0."""
    results = made if isinstance(made, tuple) else (made,)
    for slot, value in zip(call.outputs, results, strict=False):
        if slot:
            values[slot] = value


def _note_last_uses(calls: Sequence[TorchCall], kept: set[int]) -> None:
    """Note for each call the slots to empty after it."""
    seen = set(kept)
    for call in reversed(calls):
        touched = dict.fromkeys((*call.inputs, *call.outputs))
        call.dead = tuple(slot for slot in touched if slot not in seen)
        seen.update(call.dead)
