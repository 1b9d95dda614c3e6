"""Program: one rank's model, ready for requests, its segments loaded and collectives joined."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from onnx import TensorProto, numpy_helper

from ...comm.arrays import Array
from ...comm.collective_call import Kind
from ...comm.collectives.backend import Collectives, tensor_collectives
from ...comm.errors import ModelError
from ...compiler.onnx_graph.external import external_array, lies_in
from ..cache.build_cache import Build
from ..executors.base import DeviceQueue
from ..partition.plan import CollectiveStep, Plan, Step
from .bound_steps import bind_steps
from .buffers import States, StateSlot, allocate, small_outputs
from .input_check import InputCheck
from .steps import CollectiveClock, ReadySegment, ReadyStep, StepPreparation
from .stretch import Stretch, stretches
from .weight_source import ProgramWeights

if TYPE_CHECKING:
    from ..cache.build_cache import BuildCache

Memory = Mapping[str, memoryview]
_COPIED = 1 << 16
"""Bytes of a value that is handed on, up to which it is copied."""


@dataclass(slots=True)
class Program:
    """One rank's model, ready to run, by one thread at a time.

    `worker/runtime/opening.py` opens programs. Arrays of requests are keyed by the names of
    `plan.inputs` and `plan.outputs`.
    """

    plan: Plan
    kept: bool
    """Whether it was built from the model cache."""

    collectives: Collectives
    states: States
    _steps: list[ReadyStep]
    _buffers: dict[str, Array]
    _constants: dict[str, Array]
    _clock: CollectiveClock
    _inputs: InputCheck
    _outputs: list[tuple[str, str, bool]]
    _live: ProgramWeights | None
    """The weights where they may change between requests."""
    cores: Sequence[int]
    """Where the thread that calls `predict` should run; anywhere if empty."""
    cache: BuildCache | None
    """The model cache that keeps the build, if there is one."""

    @classmethod
    def ready(
        cls,
        build: Build,
        collectives: Collectives,
        live: ProgramWeights | None = None,
        cores: Sequence[int] = (),
        cache: BuildCache | None = None,
        queue: DeviceQueue | None = None,
    ) -> Program:
        """The program of a build. `live` are weights that may change; `queue`: see device_queue."""
        plan, memory = build.plan, build.memory
        states = _states(plan, memory)
        outputs = {signature.value for signature in plan.outputs}
        room = {name: slot for name, slot in states.room().items() if name not in outputs}
        constants = _constants(build)
        if live:
            live.keep_current(constants)
        chosen, buffers = _chosen(build.run or plan, collectives, queue)
        clock = CollectiveClock()
        preparation = StepPreparation(build.run or plan, build.load, collectives, clock, queue)
        try:
            steps = preparation.steps(chosen, buffers, room)
        except ModelError as error:
            raise ModelError(f"{plan.path}: {_without(plan.path, error)}") from error
        given = {one.value for one in plan.inputs} | {one.value for one in plan.states}
        return cls(
            plan,
            build.kept,
            collectives,
            states,
            steps,
            buffers,
            constants,
            clock,
            InputCheck(plan),
            _outputs(plan, {*given, *constants, *buffers}),
            live,
            cores,
            cache,
        )

    def wait_until_kept(self) -> None:
        """Wait until the model cache has the build, or it has turned out that it cannot."""
        if self.cache:
            self.cache.wait()

    @property
    def collective_seconds(self) -> float:
        """The time that requests have spent in collectives so far."""
        return self._clock.seconds

    def predict(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """Run once. `inputs` has one array per input of `plan.inputs`, by name, in its dtype and
        shape.

        Returns the outputs by name, in the model's order; the arrays belong to the caller. Raises
        InputError where the inputs do not fit: before anything ran, but for dimensions that the
        file leaves open. After any error the states are those before it.
        """
        if self._live:
            with self._live.hold():
                return self._own(inputs)
        return self._own(inputs)

    def borrow(self, inputs: Mapping[str, Array]) -> dict[str, tuple[Array, bool]]:
        """As `predict`, without a copy: an array whose flag is True may be read until the next
        request only.
        """
        if self._live:
            return {name: (array, False) for name, array in self.predict(inputs).items()}
        values = self._run(inputs)
        results = {name: (values[value], shared) for name, value, shared in self._outputs}
        self.states.keep(values)
        return results

    def bound(
        self, inputs: Mapping[str, Array], outputs: Mapping[str, Array]
    ) -> Callable[[], object] | None:
        """A call that runs requests of just these arrays, and writes the outputs in place.

        None where there is more to a request than one segment, or a large value is handed on.
        `inputs` are as declared, `outputs` some by name.
        """
        made = {signature.name: signature.value for signature in self.plan.outputs}
        rooms = {made[name]: array for name, array in outputs.items()}
        if self._live or self.plan.states or len(rooms) < len(outputs) or len(self._steps) > 1:
            return None
        given = {signature.value: inputs[signature.name] for signature in self.plan.inputs}
        values = {**self._constants, **given}
        copies = [(room, values[name]) for name, room in rooms.items() if name in values]
        if not all(_is_quick_copy(room, value) for room, value in copies):
            return None
        if not self._steps:
            return partial(_copy, copies)
        (step,) = self._steps
        if not isinstance(step, ReadySegment):
            return None
        run = step.bound({**rooms, **values})
        return partial(_copy, copies, run) if copies else run

    def bound_again(
        self, inputs: Mapping[str, Array], outputs: Mapping[str, Array]
    ) -> Callable[[], object]:
        """A call that runs requests of just these arrays, of any number of steps, and writes the
        outputs in place: `outputs` has all of them by name. An output may be an input's array.

        It runs once to learn the shapes of the values between the steps, with the inputs as they
        are; so do all ranks. Raises as `predict`, and ModelError for branches and loops.
        """
        made = {signature.name: signature.value for signature in self.plan.outputs}
        rooms = {made[name]: array for name, array in outputs.items()}
        given = {signature.value: inputs[signature.name] for signature in self.plan.inputs}
        return bind_steps(self._steps, {**self._constants, **given}, rooms, self.plan.path)

    def _own(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """The outputs; arrays that do not belong to the caller alone are copied."""
        values = self._run(inputs)
        results = {}
        for name, value, shared in self._outputs:
            results[name] = values[value].copy() if shared else values[value]
        self.states.keep(values)
        return results

    def _run(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """All values of a request, the new states not kept yet: that may overwrite what an output
        is to hand out.

        A request finds the caches of the CPU full of weights: code and data that it touches cost
        ten times as much as in a loop of their own.
        """
        values = {**self._constants, **self.states.found()}
        self._inputs.add(inputs, values)
        for step in self._steps:
            step.run(values)
        return values

    def close(self) -> None:
        """Leave the collectives and free the buffers."""
        self.collectives.close()
        self._steps.clear()
        self._buffers.clear()


def _is_quick_copy(room: Array, value: Array) -> bool:
    """Whether a value that is handed on is copied sooner than its place is told."""
    return room.nbytes <= _COPIED and (room.shape, room.dtype) == (value.shape, value.dtype)


def _copy(copies: Sequence[tuple[Array, Array]], run: Callable[[], object] | None = None) -> None:
    """Copy values that are handed on, and run what makes the others."""
    for room, value in copies:
        room[...] = value
    if run is not None:
        run()


def _chosen(
    plan: Plan, collectives: Collectives, queue: DeviceQueue | None
) -> tuple[Sequence[Step | Stretch], dict[str, Array]]:
    """The steps to prepare, and buffers for their values; with a queue, as stretches."""
    tensors = tensor_collectives(collectives)

    def on_device(step: CollectiveStep) -> bool:
        shaped = step.call.kind is Kind.RECEIVE and step.inputs  # by numbers of the host
        return tensors is not None and not shaped and tensors.takes(step.call)

    chosen = stretches(plan, on_device) if queue else plan.steps
    inside = {name for one in chosen if isinstance(one, Stretch) for name in one.inside}
    return chosen, {**allocate(plan, inside), **small_outputs(plan)}


def _states(plan: Plan, memory: Memory) -> States:
    slots = {state.value: StateSlot(_array(plan, state.initial, memory)) for state in plan.states}
    return States(slots, {state.value: state.result for state in plan.states})


def _outputs(plan: Plan, shared: set[str]) -> list[tuple[str, str, bool]]:
    """Each output's name, its value, and whether that is one of `shared` or another output's
    too."""
    found = []
    for signature in plan.outputs:
        found.append((signature.name, signature.value, signature.value in shared))
        shared = {*shared, signature.value}
    return found


def _constants(build: Build) -> dict[str, Array]:
    """The constants that steps and outputs of the plan that runs take."""
    taken = (build.run or build.plan).constants
    return {name: _array(build.plan, tensor, build.memory) for name, tensor in taken.items()}


def _array(plan: Plan, tensor: TensorProto, memory: Memory) -> Array:
    """An initializer as an array; an external one stays a view on its file, or leaves the memory,
    which is to go.
    """
    try:
        if tensor.data_location != TensorProto.EXTERNAL:
            array: Array = numpy_helper.to_array(tensor)
            return array
        view = external_array(tensor, plan.folder, memory)
        return view.copy() if lies_in(memory, tensor) else view
    except (ValueError, TypeError) as error:
        raise ModelError(
            f"{plan.path}: a constant is corrupt: {error}. Export or copy the file again."
        ) from error


def _without(path: str, error: ModelError) -> str:
    """The text of an error without the file, which some name themselves."""
    return str(error).removeprefix(f"{path}: ")
