"""Steps of a plan, ready to run: each takes operands from a request's values and adds its
results."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Protocol, cast

import numpy as np

from ...comm.arrays import Array
from ...comm.collective_call import Kind
from ...comm.collectives.backend import Collectives, tensor_collectives
from ...comm.errors import InputError
from ...compiler.element_types.value_types import TensorType
from ...compiler.onnx_graph.collective_types import received_shape, result_shapes
from ..executors.base import DeviceQueue, Runnable, Shareable, UnsupportedNodes
from ..partition.plan import Block, BranchStep, CollectiveStep, LoopStep, Plan, Segment, Step
from .buffers import StateSlot, has_room
from .stretch import Stretch
from .stretch_work import StretchWork

Values = dict[str, Array]


class ReadyStep(Protocol):
    """One step, ready to run."""

    def run(self, values: Values) -> None:
        """Carry the step out; raises what executors and collectives raise."""


class StepResults:
    """Arrays for the results of one step: buffers of all requests, spare arrays of states, or new
    ones.

    None where only the run tells the shape.
    """

    def __init__(
        self,
        names: Sequence[str],
        types: Mapping[str, TensorType],
        buffers: Mapping[str, Array],
        slots: Mapping[str, StateSlot],
    ) -> None:
        self._fixed: list[Array | None] = [buffers.get(name) for name in names]
        self._slots = [
            (i, slots[name])
            for i, name in enumerate(names)
            if name in slots and name not in buffers
        ]
        held = {i for i, _ in self._slots}
        self._new = [
            (i, kind.shape or (), kind.dtype)
            for i, kind in enumerate(types[name] for name in names)
            if self._fixed[i] is None and i not in held and has_room(kind)
        ]

    def arrays(self) -> list[Array | None]:
        """One array per result, for one run."""
        found = self._fixed.copy()
        for index, shape, dtype in self._new:
            found[index] = np.empty(shape, dtype)
        for index, slot in self._slots:
            found[index] = slot.spare
        return found


@dataclass(slots=True)
class ReadySegment:
    """A segment and its executor's session, or a stretch that runs as one."""

    step: Segment | Stretch
    runnable: Runnable
    room: StepResults

    def run(self, values: Values) -> None:
        """See Ready.run."""
        step = self.step
        inputs = []
        for name in step.inputs:
            inputs.append(values[name])
        for name, array in zip(
            step.outputs, self.runnable.run(inputs, self.room.arrays()), strict=True
        ):
            values[name] = array

    def run_into(self, values: Values, rooms: Mapping[str, Array]) -> None:
        """As `run`, with results in `rooms` by name."""
        inputs = [values[name] for name in self.step.inputs]
        places = [rooms.get(name) for name in self.step.outputs]
        values.update(zip(self.step.outputs, self.runnable.run(inputs, places), strict=True))

    def bound(self, values: Values) -> Callable[[], object]:
        """A call that runs the segment on these arrays, which hold its inputs and may hold
        outputs. It raises UnexpectedShape where a result is not in its place.
        """
        outputs = [
            values.get(name, own)
            for name, own in zip(self.step.outputs, self.room.arrays(), strict=True)
        ]
        twin = cast(Shareable, self.runnable).twin()
        return partial(_run_in_place, twin, [values[name] for name in self.step.inputs], outputs)


class UnexpectedShape(Exception):
    """A result has another shape than the file declares, and lies in an array of its own."""


def _run_in_place(runnable: Runnable, inputs: list[Array], outputs: list[Array | None]) -> None:
    for array, out in zip(runnable.run(inputs, outputs), outputs, strict=True):
        if out is not None and array is not out:
            raise UnexpectedShape


@dataclass(slots=True)
class ReadyCollective:
    """A collective; `clock` counts the time spent in it."""

    step: CollectiveStep
    collectives: Collectives
    room: StepResults
    plan: Plan
    clock: CollectiveClock

    def run(self, values: Values) -> None:
        """See Ready.run."""
        start, step = time.perf_counter(), self.step
        arrays = [values[name] for name in step.inputs]
        results = [
            self._sized(i, arrays) if room is None else room
            for i, room in enumerate(self.room.arrays())
        ]
        sent = () if step.call.kind is Kind.RECEIVE else arrays  # a shape is not sent
        try:
            self.collectives.run(step.call, sent, results)
        except ValueError as error:  # nothing but sizes that the file leaves open can be wrong here
            raise InputError(f"{self.plan.path}: node {step.call.node}: {error}.") from error
        values.update(zip(step.outputs, results, strict=True))
        self.clock.seconds += time.perf_counter() - start

    def run_into(self, values: Values, rooms: Mapping[str, Array]) -> None:
        """As `run`: no model gives out what a collective makes."""
        self.run(values)

    def bound(self, values: Values) -> Callable[[], object]:
        """A call that runs the collective on these arrays, which hold its operands and results."""
        arrays = [values[name] for name in self.step.inputs]
        results = [values[name] for name in self.step.outputs]
        return partial(self._timed, arrays, results)

    def _timed(self, arrays: Sequence[Array], results: Sequence[Array]) -> None:
        start = time.perf_counter()
        self.collectives.run(self.step.call, arrays, results)
        self.clock.seconds += time.perf_counter() - start

    def _sized(self, index: int, arrays: list[Array]) -> Array:
        """Room for a result whose shape only the operands of this request tell."""
        call, kind = self.step.call, self.plan.types[self.step.outputs[index]]
        if call.kind is Kind.RECEIVE:
            return np.empty(received_shape(call, arrays[0], kind.shape), kind.dtype)
        return np.empty(result_shapes(call, [a.shape for a in arrays])[index], kind.dtype)


@dataclass(slots=True)
class CollectiveClock:
    """Seconds spent in collectives."""

    seconds: float = 0.0


@dataclass(slots=True)
class ReadyBlock:
    """The steps of a branch or body."""

    block: Block
    steps: list[ReadyStep]

    def run(self, values: Values) -> list[Array]:
        """Run the steps once; returns the block's results."""
        for step in self.steps:
            step.run(values)
        return [values[name] for name in self.block.results]


@dataclass(slots=True)
class ReadyBranch:
    """An If."""

    step: BranchStep
    yes: ReadyBlock
    no: ReadyBlock

    def run(self, values: Values) -> None:
        """See Ready.run."""
        step = self.step
        taken = [values[name] for name in step.inputs]
        block = self.yes if _truth(values[step.condition]) else self.no
        values.update(zip(step.outputs, _own(block.run(values), taken), strict=True))


@dataclass(slots=True)
class ReadyLoop:
    """A Loop."""

    step: LoopStep
    body: ReadyBlock
    types: Mapping[str, TensorType]

    def run(self, values: Values) -> None:
        """See Ready.run."""
        step, arguments = self.step, self.body.block.arguments
        taken = [values[name] for name in step.inputs]
        carried = [values[name] for name in step.initial]
        rounds: list[list[Array]] = []
        most = int(values[step.count].reshape(())) if step.count else None
        go_on = np.array(_truth(values[step.condition]) if step.condition else True)
        number = 0
        while _truth(go_on) and (most is None or number < most):
            values.update(
                zip(arguments, (np.array(number, np.int64), go_on, *carried), strict=True)
            )
            go_on, *results = self.body.run(values)
            carried, stacked = results[: len(carried)], results[len(carried) :]
            rounds.append([array.copy() for array in stacked])
            number += 1
        every = [self._stacked(index, rounds) for index in range(len(step.outputs) - len(carried))]
        values.update(zip(step.outputs, (*_own(carried, taken), *every), strict=True))

    def _stacked(self, index: int, rounds: list[list[Array]]) -> Array:
        kind = self.types[self.step.outputs[len(self.step.initial) + index]]
        if not rounds:
            return np.zeros((0, *(max(dim, 0) for dim in (kind.shape or (0,))[1:])), kind.dtype)
        return np.stack([arrays[index] for arrays in rounds])


@dataclass(frozen=True, slots=True)
class StepPreparation:
    """Prepares the steps of a plan. `prepare` loads a segment.

    Inside branches and bodies every result is new memory: a round must not overwrite what it reads
    of the last.
    """

    plan: Plan
    prepare: Callable[[Segment], Runnable]
    collectives: Collectives
    clock: CollectiveClock
    queue: DeviceQueue | None = None
    """The queue that stretches run in."""

    def steps(
        self,
        chosen: Sequence[Step | Stretch],
        buffers: Mapping[str, Array],
        slots: Mapping[str, StateSlot],
    ) -> list[ReadyStep]:
        """The steps `chosen`, their results in `buffers`, in the room of `slots` or in new memory.

        Raises UnsupportedNodes with those of all segments.
        """
        try:
            return [self._ready(step, buffers, slots) for step in chosen]
        except UnsupportedNodes as error:
            raise UnsupportedNodes(error.executor, self._unsupported()) from None

    def _unsupported(self) -> list[str]:
        """The nodes of all segments that their executor cannot run."""
        found: list[str] = []
        for segment in self.plan.segments:
            try:
                self.prepare(segment)
            except UnsupportedNodes as error:
                found.extend(error.nodes)
        return found

    def _ready(
        self, step: Step | Stretch, buffers: Mapping[str, Array], slots: Mapping[str, StateSlot]
    ) -> ReadyStep:
        if isinstance(step, BranchStep):
            return ReadyBranch(step, self._block(step.yes), self._block(step.no))
        if isinstance(step, LoopStep):
            return ReadyLoop(step, self._block(step.body), self.plan.types)
        room = StepResults(step.outputs, self.plan.types, buffers, slots)
        if isinstance(step, Segment):
            return ReadySegment(step, self.prepare(step), room)
        if isinstance(step, Stretch):
            return ReadySegment(step, self._on_device(step), room)
        return ReadyCollective(step, self.collectives, room, self.plan, self.clock)

    def _on_device(self, stretch: Stretch) -> Runnable:
        assert self.queue is not None
        segments = [(at, one) for at, one in enumerate(stretch.steps) if isinstance(one, Segment)]
        prepared = {at: self.prepare(one) for at, one in segments}
        work = StretchWork(stretch, prepared, tensor_collectives(self.collectives), self.plan.types)
        end = stretch.outputs[0] if stretch.outputs else "its last Send"
        return self.queue.runnable(work, f"{self.plan.path}: the part up to {end}")

    def _block(self, one: Block) -> ReadyBlock:
        return ReadyBlock(one, [self._ready(step, {}, {}) for step in one.steps])


def _truth(array: Array) -> bool:
    return bool(array.reshape(-1)[0])


def _own(results: Sequence[Array], taken: Sequence[Array]) -> list[Array]:
    """The results as arrays that nothing else holds: a branch may hand on what it took, and one
    value twice.
    """
    seen = {id(array) for array in taken}
    found = []
    for array in results:
        found.append(array.copy() if id(array) in seen else array)
        seen.add(id(array))
    return found
