"""A rank's program, and the one that takes its place when its weights are updated."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ..comm.errors import InputError, ModelError, UsageError
from ..comm.rank import Rank
from ..comm.serving.tensor_arena import TensorArena
from ..comm.serving.weights import Drop, Fill, Find, Question, Reply, Stage, Weight
from ..comm.shard import RANK
from .cache.entry import model_files
from .executors.base import Executor
from .program import Program
from .stamp import Stamp

if TYPE_CHECKING:
    from .weights.names import WeightNames
    from .weights.resident import Resident

Array = NDArray[Any]


class Updatable:
    """`program` and `switch` are for the thread that runs requests; `reply` is for one other thread, meanwhile.

    Until the first update that program is as fast as its executor makes it. Then one takes its place whose weights are
    inputs of its sessions, which an update only has to bind.
    """

    def __init__(self, program: Program, rank: Rank, executor: Callable[[], Executor], arena: TensorArena,
                 weights: Resident | None) -> None:
        """`executor` gives one that prepares LiveSegments, `arena` has updated weights; `weights` if they are live."""
        self.program = self._next = program
        self._rank, self._executor, self._arena, self._weights = rank, executor, arena, weights
        self._live = weights is not None
        self._files = [] if self._live else [Stamp.of(path) for path in model_files(program.plan)]
        self._read: Mapping[str, Array] = {}

    @classmethod
    def open(cls, program: Callable[..., Program], packed: Executor, live: Callable[[], Executor], rank: Rank,
             arena: TensorArena, stage: Stage | None) -> Updatable:
        """What `program` opens with the executor `packed`; or, where updates are in effect, with `live`, as staged."""
        if stage is None:
            return cls(program(packed), rank, live, arena, None)
        from .weights.resident import Resident

        weights = Resident(arena, stage)
        return cls(program(live(), live=weights), rank, live, arena, weights)

    def switch(self, number: int) -> None:
        """Compute with the edition `number`, which was staged, from now on."""
        assert self._weights is not None
        self._weights.switch(number)
        if self._next is not self.program:
            self._next.states.take_from(self.program.states)
            self.program, self._live = self._next, True

    def reply(self, question: Question) -> Reply:
        """Do what is asked. Raises InputError, naming the weight, where a tensor does not fit, and as builds do."""
        if isinstance(question, Find):
            return self._find(question)
        if isinstance(question, Fill):
            self._fill(question)
        elif isinstance(question, Stage):
            self._stage(question)
        else:
            assert isinstance(question, Drop)
            self._drop()
        return Reply()

    def _find(self, question: Find) -> Reply:
        if not question.path:
            return self._found(question.offered, question.delta)
        from .weights.loading import read_used

        weights, path = self._opened(), question.path.replace(RANK, str(self._rank.rank))
        read = read_used(path, weights.names, weights.path)
        offered = [Weight(name, array.dtype.name, array.shape) for name, array in read.items()]
        try:
            reply = self._found(offered, question.delta)
        except InputError as error:
            raise InputError(f"{path}: {error}") from error
        self._read = {weight.name: read[name] for name, weight in reply.found.items()}
        return reply

    def _found(self, offered: Iterable[Weight], delta: bool) -> Reply:
        weights, found, meant = self._opened(), dict[str, Weight](), set[str]()
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
        return Reply(found, unknown, _reason(weights.names, unknown[0]) if unknown else "")

    def _fill(self, question: Fill) -> None:
        from .weights.stored import on_host

        weights, read, self._read = self._opened(), self._read, {}
        for weight in question.weights:
            target = weights.array(weight)
            if read:
                np.copyto(target, read[weight.name])
            if question.delta:
                np.add(on_host(weights.store.exported(weight.name)), target, out=target)

    def _stage(self, stage: Stage) -> None:
        weights = self._opened()
        weights.stage(stage)
        if self._next is self.program and not self._live:
            self._next = self.program.over(self._rank, self._executor(), weights)

    def _drop(self) -> None:
        self._read = {}
        if self._live and self._weights is not None:
            self._weights.drop()
        else:
            self._next, self._weights = self.program, None

    def _opened(self) -> Resident:
        """The weights; mapped from the model's files at the first question."""
        if self._weights is None:
            from .weights.resident import Resident

            if not all(stamp.holds for stamp in self._files):
                raise ModelError(f"{self.program.plan.path}: the model's files have changed since it was opened, so "
                                 f"its weights cannot be updated: start a new orchestrator for the model as it is now.")
            self._weights = Resident(self._arena)
            self._weights.open(self.program.plan, {}, self._rank)
        return self._weights


def _reason(names: WeightNames, name: str) -> str:
    """Why a name means no weight."""
    try:
        names.find(name)
    except InputError as error:
        return str(error)
    return ""


def live_executor(executor: Executor, device: str) -> Executor:
    """An executor whose sessions read the weights where they lie; UsageError for a device that cannot."""
    from .executors.live import Live

    if device != "cpu":
        raise UsageError(f"device {device}: weights are updated on CPUs only, so far. Start a new orchestrator for a "
                         f"model file with the new weights, or run on the CPU (device=\"cpu\").")
    return Live(executor)
