"""Rank weights: a served model's own weights from its mapped files, updated ones from an arena."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from math import prod

import numpy as np
from onnx import TensorProto, numpy_helper

from ...comm.arrays import Array
from ...comm.errors import RankmeshError
from ...comm.request_memory.tensor_arena import TensorArena
from ...comm.serving.tensor_spec import dtype_named
from ...comm.serving.weights import StageWeights, WeightTensor
from ...compiler.onnx_graph.external import external_array
from ..partition.plan import Plan
from .control import WeightSnapshot, mark
from .live_sessions import LiveSessions
from .plan_weights import type_of, weights_of
from .readers import VersionAgreement
from .store import WeightStore, WeightVariable, require_fit
from .updates.names import WeightNames


class RankWeights:
    """See LiveWeights. Nothing is copied; the orchestrator orders the switch to a snapshot.

    MindIR files align no weight; onnxruntime reads them at any address, as it reads external data.
    `stage` may be called while another thread runs the program, all else by that thread.
    """

    def __init__(
        self,
        arena: TensorArena,
        first: StageWeights | None,
        plan: Plan,
        texts: Mapping[str, memoryview],
    ) -> None:
        """Map the weights of `plan`; `texts` has the plain text of encrypted files.

        `arena` has the updated weights; `first` is the snapshot to start with, None: as exported.
        """
        self.path = plan.path
        self._arena = arena
        weights = weights_of(plan)
        self.names = WeightNames(plan, list(weights), {})
        self.store = WeightStore(
            {
                name: WeightVariable(number, _exported(plan, tensor, texts))
                for number, (name, tensor) in enumerate(weights.items())
            }
        )
        self._sessions: LiveSessions | None = None
        self._current = WeightSnapshot(0, 0, (0,) * len(weights))
        self._staged = self._current
        if first is not None:
            self.stage(first)
            self.switch(first.number)

    @property
    def version(self) -> int:
        """See LiveWeights.version."""
        return self._current.version

    @property
    def handle(self) -> None:
        """See LiveWeights.handle: the orchestrator shares the weights, this process does not."""

    @contextmanager
    def hold(self, agreement: VersionAgreement | None) -> Iterator[WeightSnapshot]:
        """See LiveWeights.hold. All ranks switch between the same two requests."""
        yield self._current

    @contextmanager
    def install(self, sessions: LiveSessions) -> Iterator[WeightSnapshot]:
        """See LiveWeights.install. The program is made for the staged snapshot."""
        yield self._staged
        self._sessions = sessions

    def require_fit(self, name: str, offered: WeightTensor, delta: bool) -> WeightTensor:
        """The weight `name`, whose place the tensor can take, or to which it can be added.

        Raises InputError where it cannot.
        """
        wanted = self.store.variables[name].copies[0]
        label = f"the weight '{name}' of {self.path}"
        require_fit(label, wanted, tuple(offered.shape), offered.dtype, delta)
        return WeightTensor(name, offered.dtype, wanted.shape)

    def array(self, weight: WeightTensor) -> Array:
        """The bytes of a weight in the arena."""
        dtype, shape = dtype_named(weight.dtype), tuple(weight.shape)
        return self._arena.view(weight.offset, dtype, shape, prod(shape) * dtype.itemsize)

    def stage(self, stage: StageWeights) -> None:
        """Make sessions ready for a snapshot; requests go on meanwhile."""
        marks = [0] * len(self._current.marks)
        for weight in stage.weights:
            variable = self.store.variables[weight.name]
            marks[variable.number] = self._put(variable, weight)
        snapshot = WeightSnapshot(stage.number, stage.version, tuple(marks))
        if self._sessions:
            self._sessions.make(snapshot)
        self._staged = snapshot

    def drop(self) -> None:
        """Discard the staged snapshot."""
        self._staged = self._current

    def switch(self, number: int) -> None:
        """Compute with the staged snapshot, which must be `number`, from now on."""
        if self._staged.generation != number:
            raise RankmeshError(
                f"snapshot {number} of the weights is to be used and snapshot "
                f"{self._staged.generation} is ready"
            )
        self._current = self._staged

    def close(self) -> None:
        """See LiveWeights.close: the orchestrator shares them, this process does not."""

    def _put(self, variable: WeightVariable, weight: WeightTensor) -> int:
        """Add an updated weight to the variable's copies that are not current; returns its mark."""
        now = self._current.marks[variable.number]
        if now in (mark(weight.mark, 1), mark(weight.mark, 2)):
            return now
        place = 2 if self._current.copy_of(variable.number) == 1 else 1
        copies = [*variable.copies, *variable.copies[:1] * (3 - len(variable.copies))]
        copies[place] = self.array(weight)
        variable.copies = tuple(copies)
        return mark(weight.mark, place)


def _exported(plan: Plan, tensor: TensorProto, memory: Mapping[str, memoryview]) -> Array:
    """A weight as exported: a view on its mapped file, or an array from the model's own file."""
    if tensor.data_location == TensorProto.EXTERNAL:
        return external_array(tensor, plan.folder, memory)
    kind = type_of(tensor)
    array: Array = (
        numpy_helper.to_array(tensor)
        .reshape(-1)
        .view(np.uint8)
        .view(kind.dtype)
        .reshape(kind.shape)
    )
    return array
