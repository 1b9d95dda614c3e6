"""Swappable program: another one takes its place once its weights are updated."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING

import numpy as np

from ...comm.arrays import Array
from ...comm.errors import InputError, ModelError, UsageError
from ...comm.host.stamp import Stamp
from ...comm.job.shard import RANK
from ...comm.rendezvous.rendezvous import Rendezvous
from ...comm.request_memory.tensor_arena import TensorArena
from ...comm.serving.orders import ModelReport
from ...comm.serving.tensor_spec import Default, TensorSpec
from ...comm.serving.weight_slices import WeightSlice
from ...comm.serving.weights import (
    DiscardWeights,
    ResolveWeights,
    StageWeights,
    WeightReply,
    WeightRequest,
    WeightTensor,
    WriteWeights,
)
from ...compiler.onnx_graph.external import NO_MEMORY
from ..cache.kept_build import model_files
from ..executors.registry import suited_to
from ..executors.settings import TORCH, ExecutorSettings
from ..partition.plan import Signature
from ..runtime.input_check import defaults_of
from ..runtime.opening import open_program, reopen
from ..runtime.program import Program
from ..runtime.program_spec import ProgramSpec

if TYPE_CHECKING:
    from ..weights.rank_weights import RankWeights
    from ..weights.updates.names import WeightNames


class SwappableProgram:
    """One thread runs requests with `program` and calls `switch`; one other thread may call
    `reply`: see RankModel.

    Until the first update that program is as fast as its executor makes it. Then one takes its
    place whose weights are inputs of its sessions, which an update only has to bind.
    """

    def __init__(
        self,
        spec: ProgramSpec,
        program: Program,
        rendezvous: Rendezvous,
        arena: TensorArena,
        weights: RankWeights | None,
    ) -> None:
        """`program` is what `spec` opens with the ranks of `rendezvous`, over `weights` if they are
        live; `arena` has updated weights.
        """
        self.program = program
        self._next = program
        self._spec = spec
        self._rank = rank = rendezvous.rank
        self._collectives = str(rendezvous.choice) if rank.world_size > 1 else ""
        self._arena = arena
        self._weights = weights
        self._live = weights is not None
        self._files = [] if self._live else [Stamp.of(path) for path in model_files(program.plan)]
        self._read: Mapping[str, Array] = {}

    @classmethod
    def open(
        cls,
        spec: ProgramSpec,
        rendezvous: Rendezvous,
        arena: TensorArena,
        stage: StageWeights | None,
    ) -> SwappableProgram:
        """Open `spec`, over live weights as staged where updates are in effect. Raises as
        open_program.
        """
        if stage is None:
            return cls(spec, open_program(spec, rendezvous), rendezvous, arena, None)
        from ..weights.live_source import LiveSource
        from ..weights.rank_weights import RankWeights

        require_updatable(spec.executor)
        source = LiveSource(lambda plan, texts, *_: RankWeights(arena, stage, plan, texts))
        program = open_program(spec, rendezvous, source)
        return cls(spec, program, rendezvous, arena, source.weights)

    @property
    def report(self) -> ModelReport:
        """See RankModel."""
        plan = self.program.plan
        results = tuple(at for at, signature in enumerate(plan.outputs) if signature.has_result)
        inputs, outputs = map(_spec, plan.inputs), map(_spec, plan.outputs)
        return ModelReport(
            plan.path,
            tuple(inputs),
            tuple(outputs),
            results,
            bool(plan.states),
            self._collectives,
        )

    @property
    def collective_seconds(self) -> float:
        """See RankModel."""
        return self.program.collective_seconds

    def borrow(self, inputs: Mapping[str, Array]) -> Mapping[str, Array]:
        """See RankModel."""
        return {name: array for name, (array, _) in self.program.borrow(inputs).items()}

    def bound(
        self, inputs: Mapping[str, Array], outputs: Mapping[str, Array]
    ) -> Callable[[], object] | None:
        """See RankModel."""
        return self.program.bound(inputs, outputs)

    def switch(self, number: int) -> None:
        """Compute with the edition `number`, which was staged, from now on."""
        assert self._weights is not None
        self._weights.switch(number)
        if self._next is not self.program:
            self._next.states.take_from(self.program.states)
            self.program = self._next
            self._live = True

    def reply(self, question: WeightRequest) -> WeightReply:
        """Do what is asked. Raises InputError, naming the weight, where a tensor does not fit, and
        as builds do.
        """
        if isinstance(question, ResolveWeights):
            return self._find(question)
        if isinstance(question, WriteWeights):
            self._fill(question)
        elif isinstance(question, StageWeights):
            self._stage(question)
        else:
            assert isinstance(question, DiscardWeights)
            self._drop()
        return WeightReply()

    def _find(self, question: ResolveWeights) -> WeightReply:
        if not question.path:
            return self._found(question.offered, question.delta)
        from ..weights.updates.new_values import read_used

        weights, path = self._opened(), question.path.replace(RANK, str(self._rank.rank))
        if question.slices is not None:
            return self._sliced(question.slices, path, question.delta)
        read = read_used(path, weights.names)
        offered = [
            WeightTensor(name, array.dtype.name, array.shape) for name, array in read.items()
        ]
        try:
            reply = self._found(offered, question.delta)
        except InputError as error:
            raise InputError(f"{path}: {error}") from error
        self._read = {weight.name: read[name] for name, weight in reply.found.items()}
        return reply

    def _sliced(self, slices: dict[str, WeightSlice], path: str, delta: bool) -> WeightReply:
        """The slices of a file with whole weights; names that have none here are unknown."""
        from ..weights.updates.files import read_weights

        whole = read_weights(path)
        mine = {name: one for name, one in slices.items() if one.weight in whole}
        try:
            read = {name: one.of(whole[one.weight]) for name, one in mine.items()}
            offered = [WeightTensor(name, one.dtype.name, one.shape) for name, one in read.items()]
            reply = self._found(offered, delta)
        except InputError as error:
            raise InputError(f"{path}: {error}") from error
        self._read = {weight.name: read[name] for name, weight in reply.found.items()}
        others = whole.keys() - {one.weight for one in mine.values()}
        unknown = [*reply.unknown, *sorted(others)]
        reason = f"{path}: no rank has a slice of a weight '{unknown[0]}'." if unknown else ""
        return WeightReply(reply.found, unknown, reason)

    def _found(self, offered: Iterable[WeightTensor], delta: bool) -> WeightReply:
        weights, found, meant = self._opened(), dict[str, WeightTensor](), set[str]()
        offered = list(offered)
        for one in offered:
            if not weights.names.known(one.name):
                continue
            name = weights.names.find(one.name)
            if name in meant:
                raise InputError(f"'{one.name}' and another of the names mean the weight '{name}'.")
            meant.add(name)
            found[one.name] = weights.require_fit(name, one, delta)
        unknown = [one.name for one in offered if one.name not in found]
        return WeightReply(found, unknown, _reason(weights.names, unknown[0]) if unknown else "")

    def _fill(self, question: WriteWeights) -> None:
        from ..weights.store import on_host

        weights, read, self._read = self._opened(), self._read, {}
        for weight in question.weights:
            target = weights.array(weight)
            if read:
                np.copyto(target, read[weight.name])
            if question.delta:
                np.add(on_host(weights.store.variables[weight.name].copies[0]), target, out=target)

    def _stage(self, stage: StageWeights) -> None:
        weights = self._opened()
        weights.stage(stage)
        if self._next is self.program and not self._live:
            from ..weights.live_source import LiveSource

            require_updatable(self._spec.executor)
            source = LiveSource.of(weights)
            self._next = reopen(self._spec, self.program, self._rank, source)

    def _drop(self) -> None:
        self._read = {}
        if self._live and self._weights is not None:
            self._weights.drop()
        else:
            self._next = self.program
            self._weights = None

    def _opened(self) -> RankWeights:
        """The weights; mapped from the model's files at the first question."""
        if self._weights is None:
            from ..weights.rank_weights import RankWeights

            if not all(stamp.holds for stamp in self._files):
                raise ModelError(
                    f"{self.program.plan.path}: the model's files have changed since it was "
                    f"opened, so its weights cannot be updated: start a new orchestrator for the "
                    f"model as it is now."
                )
            self._weights = RankWeights(self._arena, None, self.program.plan, NO_MEMORY)
        return self._weights


def _spec(signature: Signature) -> TensorSpec:
    default = None
    if signature.default is not None:
        array = defaults_of([signature])[signature.name]
        default = Default(array.shape, array.tobytes())
    return TensorSpec(signature.name, signature.type.dtype.name, signature.type.shape, default)


def _reason(names: WeightNames, name: str) -> str:
    """The reason why a name is not that of a weight."""
    try:
        names.find(name)
    except InputError as error:
        return str(error)
    return ""


def require_updatable(executor: ExecutorSettings) -> None:
    """Raise UsageError for an executor that cannot replace weights on its device."""
    device = executor.device
    if device == "cpu" or device == "gpu" and (executor.name or suited_to(device)) == TORCH:
        return
    raise UsageError(
        f"device {device}: weights are updated on CPUs, and on NVIDIA GPUs by the torch executor "
        "only. Choose that (executor: torch), start a new orchestrator for a model file with the "
        'new weights, or run on the CPU (device="cpu").'
    )
