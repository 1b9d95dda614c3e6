"""A model made ready on one rank: segments prepared, collectives joined, waiting for requests."""

from __future__ import annotations

import gc
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec
from numpy.typing import NDArray
from onnx import TensorProto, numpy_helper

from ..comm.collectives.base import Collectives
from ..comm.decoding import decode_payloads
from ..comm.errors import ModelError
from ..comm.progress import Stage
from ..comm.rank import Rank
from ..comm.rendezvous import Meeting
from .buffers import allocate, small_outputs
from .build import Build, read_build
from .companions import NO_COMPANIONS, Companions
from .equal_shards import check_equal_shards
from .executors.base import Executor
from .external import NO_MEMORY, external_array, lies_in
from .fingerprint import NOT_ASKED, EqualShards, Fingerprint, fingerprint
from .input_check import InputCheck
from .mindir.crypto import Decryption
from .plan import Origin, Plan
from .shard_check import check_shards
from .states import Slot, States
from .steps import Clock, Preparation, Ready, ReadySegment

if TYPE_CHECKING:
    from .cache.build_cache import BuildCache
    from .weights.live_program import LiveProgram
    from .weights.live_weights import LiveWeights

Array = NDArray[Any]
Memory = Mapping[str, memoryview]
_ENCODE = msgspec.msgpack.Encoder().encode


@dataclass(slots=True)
class Program:
    """One rank's model, ready to run. `predict` may be called any number of times, by one thread at a time."""

    plan: Plan
    kept: bool
    """Whether it was built from the model cache."""

    collectives: Collectives
    states: States
    _steps: list[Ready]
    _buffers: dict[str, Array]
    _constants: dict[str, Array]
    _clock: Clock
    _inputs: InputCheck
    _outputs: list[tuple[str, str, bool]]
    _live: LiveProgram | None = None
    cores: Sequence[int] = ()
    """Where the thread that calls `predict` should run; anywhere if empty."""

    @classmethod
    def open(cls, path: str, meeting: Meeting, executor: Executor,
             input_shapes: Sequence[tuple[int, ...]] | None = None, decryption: Decryption | None = None,
             cache: BuildCache | None = None, live: LiveWeights | None = None,
             companions: Companions = NO_COMPANIONS, equal_shards: EqualShards = NOT_ASKED) -> Program:
        """Read a shard, check it against the other ranks', prepare it. All ranks of the job call this.

        `input_shapes`, in the order of the model's inputs, take the place of those that the file declares;
        `decryption` opens encrypted files, whose plain text is gone once the program is open; `cache` may have the
        build, and keeps it otherwise; `live` are the weights where they are shared or change, then on all ranks;
        `companions` is what lies beside the file; `equal_shards` says whether ranks may have equal ones.
        Raises ModelError (unreadable, unsupported), ShardMismatch (does not fit the others') or RankFailed
        (another rank did not get this far).
        """
        meeting.enter(Stage.READING)
        build = read_build(path, meeting.rank, executor, input_shapes, decryption, cache, companions)
        plan = build.plan
        meeting.enter(Stage.CHECKING)
        mine = fingerprint(plan, meeting.rank.rank, live is not None, equal_shards)
        prints = decode_payloads(meeting.exchange(_ENCODE(mine)), Fingerprint)
        check_shards(prints, meeting.implementation)
        check_equal_shards(prints, mine.rank, partial(_whole_origins, build, mine.rank),
                           meeting.exchange)
        meeting.enter(Stage.BUILDING)
        collectives = meeting.collectives(_groups(prints), _pairs(prints))
        if live:
            program = cls._live_ready(build, collectives, meeting.rank, executor, live)
        else:
            program = cls.ready(build, collectives)
        if cache and not build.kept and not build.memory:
            cache.keep(plan, input_shapes, build.files)
        if build.memory:
            del build
            gc.collect()  # lowering may leave cycles, which would hold the plain text
        meeting.exchange(b"")  # nobody runs before everybody is ready
        meeting.enter(Stage.READY)
        return program

    @classmethod
    def ready(cls, build: Build, collectives: Collectives) -> Program:
        """The program of a build, its segments loaded."""
        plan, memory = build.plan, build.memory
        slots = {state.value: Slot(_array(plan, state.initial, memory)) for state in plan.states}
        states = States(slots, {state.value: state.result for state in plan.states})
        outputs = {signature.value for signature in plan.outputs}
        room = {name: slot for name, slot in states.room().items() if name not in outputs}
        constants = {name: _array(plan, tensor, memory) for name, tensor in plan.constants.items()}
        buffers, clock = {**allocate(plan), **small_outputs(plan)}, Clock()
        try:
            steps = Preparation(plan, build.load, collectives, clock).steps(buffers, room)
        except ModelError as error:
            raise ModelError(f"{plan.path}: {error}") from error
        shared = {*(signature.value for signature in plan.inputs), *constants, *slots, *buffers}
        return cls(plan, build.kept, collectives, states, steps, buffers, constants, clock, InputCheck(plan),
                   _outputs(plan, shared))

    def over(self, rank: Rank, executor: Executor, live: LiveWeights) -> Program:
        """The same model over live weights, for the requests after this program's last: both use its collectives."""
        plan = self.plan
        build = Build(plan, NO_MEMORY, lambda segment: executor.prepare(segment, plan.folder), self.kept)
        return self._live_ready(build, self.collectives, rank, executor, live)

    @classmethod
    def _live_ready(cls, build: Build, collectives: Collectives, rank: Rank, executor: Executor,
                    live: LiveWeights) -> Program:
        """The program of a build whose weights are `live`."""
        from .weights.live_program import LiveProgram

        opened = LiveProgram(build, collectives, rank, executor, live)
        with opened.opening(build.memory) as opening:
            program = cls.ready(opening, collectives)
            opened.fill(program._constants)
        program._live = opened
        return program

    @property
    def collective_seconds(self) -> float:
        """The time that requests have spent in collectives so far."""
        return self._clock.seconds

    def predict(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """Run once. `inputs` has one array per input of `plan.inputs`, by name, in its dtype and shape.

        Returns the outputs by name, in the model's order; the arrays belong to the caller. Raises InputError
        where the inputs do not fit: before anything ran, but for dimensions that the file leaves open. After any
        error the states are those before it.
        """
        if self._live:
            with self._live.hold():
                return self._own(inputs)
        return self._own(inputs)

    def borrow(self, inputs: Mapping[str, Array]) -> dict[str, tuple[Array, bool]]:
        """As `predict`, without a copy: an array whose flag is True may be read until the next request only."""
        if self._live:
            return {name: (array, False) for name, array in self.predict(inputs).items()}
        values = self._run(inputs)
        results = {name: (values[value], shared) for name, value, shared in self._outputs}
        self.states.keep(values)
        return results

    def bound(self, inputs: Mapping[str, Array], outputs: Mapping[str, Array]) -> Callable[[], object] | None:
        """What runs requests of just these arrays, the outputs written in place, with nothing left to check or bind.

        None where there is more to a request than one segment. `inputs` are as declared, `outputs` some by name.
        """
        made = {signature.name: signature.value for signature in self.plan.outputs}
        rooms = {made[name]: array for name, array in outputs.items()}
        step = self._steps[0] if len(self._steps) == 1 else None
        if self._live or self.plan.states or not isinstance(step, ReadySegment) or len(rooms) < len(outputs):
            return None
        if not rooms.keys() <= set(step.step.outputs):  # inputs or constants handed on
            return None
        values = {signature.value: inputs[signature.name] for signature in self.plan.inputs}
        return step.bound({**self._constants, **values, **rooms})

    def _own(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """The outputs; what belongs to anybody but the caller is copied."""
        values = self._run(inputs)
        results = {}
        for name, value, shared in self._outputs:
            results[name] = values[value].copy() if shared else values[value]
        self.states.keep(values)
        return results

    def _run(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """All values of a request, the new states not kept yet: that may overwrite what an output is to hand out.

        What is run once per request finds the caches full of weights, and costs by the code and data that it touches:
        ten times what it does in a loop of its own.
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


def _outputs(plan: Plan, shared: set[str]) -> list[tuple[str, str, bool]]:
    """Each output's name, its value, and whether that is one of `shared` or another output's too."""
    found = []
    for signature in plan.outputs:
        found.append((signature.name, signature.value, signature.value in shared))
        shared = {*shared, signature.value}
    return found


def _whole_origins(build: Build, rank: int) -> tuple[Origin, ...]:
    """The origins that every byte of the weights counts for."""
    from .origin import origins

    return origins(build.plan, rank, build.memory, whole=True)


def _groups(prints: list[Fingerprint]) -> list[tuple[int, ...]]:
    """Every set of members that a collective of any rank uses, in an order that all ranks agree on.

    Ranks whose weights may change agree on the version, all together.
    """
    used = {entry.call.group.ranks for one in prints for entry in one.entries if not _pairwise(entry.call)}
    everybody = {tuple(range(len(prints)))} if any(one.live for one in prints) and len(prints) > 1 else set()
    return sorted(used | everybody)


def _pairwise(call: Any) -> bool:
    return bool(call.sends_to or call.receives_from)


def _pairs(prints: list[Fingerprint]) -> list[tuple[int, int]]:
    """Every (source, destination) of point-to-point messages, likewise."""
    return sorted({(one.rank, entry.call.group.ranks[position])
                   for one in prints for entry in one.entries for position in entry.call.sends_to})


def _array(plan: Plan, tensor: TensorProto, memory: Memory) -> Array:
    """An initializer as an array; an external one stays a view on its file, or leaves the memory, which is to go."""
    try:
        if tensor.data_location != TensorProto.EXTERNAL:
            array: Array = numpy_helper.to_array(tensor)
            return array
        view = external_array(tensor, plan.folder, memory)
        return view.copy() if lies_in(memory, tensor) else view
    except (ValueError, TypeError) as error:
        raise ModelError(f"{plan.path}: a constant is corrupt: {error}. Export or copy the file again.") from error
