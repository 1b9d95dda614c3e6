"""Step program: has a decoder's step graph, bound to the memory of its sequences."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from ...comm.arrays import Array
from ...comm.serving.steps import DecoderJob, DecoderStep
from ...compiler.decoders.step_graph import (
    CAPACITY,
    KEPT_ROWS,
    LAST,
    LOGITS,
    PLACES,
    POSITIONS,
    QUERY_LENGTHS,
    ROWS,
    TOKENS,
    WANTED,
)
from ...compiler.element_types.value_types import TensorType
from ..runtime.program import Program
from .kv_memory import KvMemory
from .step_arrays import StepNumbers, StepShape

_KEPT_BINDINGS = 64
"""Shapes of steps whose bindings are kept; decoding repeats one as long as no sequence comes or
goes.
"""


@dataclass(slots=True)
class BoundStep:
    """The steps of one shape: their inputs, which each step fills, the logits, and the call that
    runs them; None before the first one.
    """

    inputs: dict[str, Array]
    logits: Array
    run: Callable[[], object] | None = None


class StepProgram:
    """A program of a step graph and the memory of its sequences; for one thread."""

    def __init__(self, program: Program, job: DecoderJob, rank: int, capacity: int) -> None:
        """Sequences have at most `capacity` tokens. Raises OutOfMemory."""
        types = {one.name: one.type for one in program.plan.inputs}
        outputs = {one.name: one.type for one in program.plan.outputs}
        self._program = program
        self._with_positions = POSITIONS in types
        self._logits_type = outputs[LOGITS]
        self.capacity = capacity
        padded = capacity + job.rows  # attention wants room for the padding of short queries
        states = {
            name: _of_slot(kind, padded)
            for name, kind in types.items()
            if name.startswith(("key.", "value."))
        }
        kept = {
            name: _of_slot(kind, padded) for name, kind in types.items() if name.startswith("kept.")
        }
        self.memory = KvMemory.opened(
            job.file, rank * job.size, job.size, job.sequences, states, kept
        )
        self._bound = lru_cache(_KEPT_BINDINGS)(self._arrays)

    @property
    def columns(self) -> int:
        """How many tokens of the vocabulary get logits here."""
        return (self._logits_type.shape or (0,))[-1]

    def run(self, step: DecoderStep) -> Array:
        """Run a step; the logits of the wanted tokens, `[wanted, columns]`, until the next one."""
        numbers = StepNumbers.of(step)
        bound = self._bound(numbers.shape, step.parity)
        numbers.write(bound.inputs)
        if bound.run is None:
            bound.run = self._call(bound, len(numbers.counts), step.parity)
        bound.run()
        return bound.logits[0]  # type: ignore[no-any-return]

    def _arrays(self, shape: StepShape, parity: int) -> BoundStep:
        logits = np.empty((1, shape.wanted, self.columns), self._logits_type.dtype)
        return BoundStep(_new_arrays(shape, self._with_positions), logits)

    def _call(self, bound: BoundStep, slots: int, parity: int) -> Callable[[], object]:
        """A call that runs steps on the arrays of `bound` and the first slots."""
        inputs, logits = bound.inputs, bound.logits
        states, kept = self.memory.states, self.memory.kept
        given: Mapping[str, Array] = {
            **inputs,
            CAPACITY: np.array([self.capacity], np.int32),
            **{name: array[:slots] for name, array in states.items()},
            **{name: array[parity, :slots] for name, array in kept.items()},
        }
        results = {
            LOGITS: logits,
            **{f"next_{name}": array[:slots] for name, array in states.items()},
            **{f"next_{name}": array[1 - parity, :slots] for name, array in kept.items()},
        }
        return self._program.bound_again(given, results)


def _new_arrays(shape: StepShape, with_positions: bool) -> dict[str, Array]:
    """Arrays for the inputs that each step fills."""
    slots, rows, tokens, wanted = shape
    sizes: dict[str, tuple[tuple[int, ...], Any]] = {
        TOKENS: ((1, tokens), np.int64),
        ROWS: ((slots, rows), np.int64),
        PLACES: ((tokens,), np.int64),
        KEPT_ROWS: ((slots,), np.int64),
        WANTED: ((wanted,), np.int64),
        LAST: ((slots,), np.int32),
        QUERY_LENGTHS: ((slots,), np.int32),
    }
    if with_positions:
        sizes[POSITIONS] = ((1, tokens), np.int64)
    return {name: np.zeros(size, dtype) for name, (size, dtype) in sizes.items()}


def _of_slot(kind: TensorType, capacity: int) -> TensorType:
    """The type of one slot of a state."""
    sizes = (kind.shape or ())[1:]
    return TensorType(kind.dtype, tuple(capacity if size < 0 else size for size in sizes))
