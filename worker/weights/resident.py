"""Weights of a rank of an orchestrator: the model's own where its files are mapped, updated ones in shared memory."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray
from onnx import TensorProto, numpy_helper

from ...comm.errors import InputError, RankmeshError
from ...comm.rank import Rank
from ...comm.serving.tensor_arena import TensorArena
from ...comm.serving.tensor_spec import dtype_named
from ...comm.serving.weights import Stage, Weight
from ...comm.sharing.gpu import Gpu
from ..dtypes import is_float
from ..external import external_array
from ..plan import Plan
from .agreement import Agreement
from .control import Edition, mark
from .live_plan import type_of, weights_of
from .names import WeightNames
from .seats import Seats
from .store import Store, Variable

Array = NDArray[Any]


class Resident:
    """See LiveWeights. Nothing is copied; which edition counts is ordered by the orchestrator, on all ranks at once.

    MindIR files align no weight; onnxruntime reads them at any address, as it does those of external data.

    `stage` may be called while another thread runs the program, all else by that thread.
    """

    def __init__(self, arena: TensorArena, first: Stage | None = None) -> None:
        """`arena` has the updated weights; where they are not to start as exported, `first` says how."""
        self._arena, self._first = arena, first
        self._seats: Seats | None = None
        self.device, self.opened = "cpu", False
        self.gpu: Gpu | None = None

    def open(self, plan: Plan, memory: Mapping[str, memoryview], rank: Rank) -> None:
        """See LiveWeights.open."""
        self.path = plan.path
        weights = weights_of(plan)
        self.names = WeightNames(plan, list(weights), {})
        self.store = Store({name: Variable(number, _exported(plan, tensor, memory))
                            for number, (name, tensor) in enumerate(weights.items())})
        self._current = self._staged = Edition(0, 0, (0,) * len(weights))
        self.opened = True
        if self._first is not None:
            self.stage(self._first)
            self.switch(self._first.number)

    @property
    def version(self) -> int:
        """See LiveWeights.version."""
        return self._current.version

    @contextmanager
    def hold(self, agreement: Agreement | None) -> Iterator[Edition]:
        """See LiveWeights.hold. Ranks need not agree: all have switched between the same two requests."""
        yield self._current

    @contextmanager
    def seat(self, seats: Seats) -> Iterator[Edition]:
        """See LiveWeights.seat: for what is staged, as the program is made to run when that counts."""
        yield self._staged
        self._seats = seats

    def require_fit(self, name: str, offered: Weight, delta: bool) -> Weight:
        """InputError unless a tensor can take the place of the weight `name`, or be added to it; else that weight."""
        wanted = self.store.exported(name)
        if tuple(offered.shape) != wanted.shape:
            raise InputError(f"the weight '{name}' of {self.path} has the shape {list(wanted.shape)}, got "
                             f"{list(offered.shape)}.")
        if offered.dtype != wanted.dtype.name:
            raise InputError(f"the weight '{name}' of {self.path} is {wanted.dtype}, got {offered.dtype}: convert it "
                             f"with astype.")
        if delta and not is_float(wanted.dtype):
            raise InputError(f"the weight '{name}' of {self.path} is {wanted.dtype}, to which no delta can be added: "
                             f"replace it.")
        return Weight(name, offered.dtype, wanted.shape)

    def array(self, weight: Weight) -> Array:
        """The bytes of a weight in the arena."""
        dtype, shape = dtype_named(weight.dtype), tuple(weight.shape)
        return self._arena.view(weight.offset, dtype, shape, prod(shape) * dtype.itemsize)

    def stage(self, stage: Stage) -> None:
        """Make sessions ready for an edition; what computes goes on meanwhile."""
        marks = [0] * len(self._current.marks)
        for weight in stage.weights:
            variable = self.store.variable(weight.name)
            marks[variable.number] = self._put(variable, weight)
        edition = Edition(stage.number, stage.version, tuple(marks))
        if self._seats:
            self._seats.make(edition)
        self._staged = edition

    def drop(self) -> None:
        """What is staged will not count."""
        self._staged = self._current

    def switch(self, number: int) -> None:
        """What is staged, the edition `number`, counts from now on."""
        if self._staged.generation != number:
            raise RankmeshError(f"edition {number} of the weights is to be used and edition {self._staged.generation} "
                                f"is ready")
        self._current = self._staged

    def close(self) -> None:
        """See LiveWeights.close: they are shared by the orchestrator, not from here."""

    def _put(self, variable: Variable, weight: Weight) -> int:
        """Have an updated weight among the variable's copies, in a place that does not count now; returns its mark."""
        now = self._current.marks[variable.number]
        if now in (mark(weight.mark, 1), mark(weight.mark, 2)):
            return now
        place = 2 if self._current.copy_of(variable.number) == 1 else 1
        copies = [*variable.copies, *variable.copies[:1] * (3 - len(variable.copies))]
        copies[place] = self.array(weight)
        variable.copies = tuple(copies)
        return mark(weight.mark, place)


def _exported(plan: Plan, tensor: TensorProto, memory: Mapping[str, memoryview]) -> Array:
    """A weight as the model has it: a view on its mapped file, or on what the model's own file holds inside."""
    if tensor.data_location == TensorProto.EXTERNAL:
        return external_array(tensor, plan.folder, memory)
    kind = type_of(tensor)
    array: Array = numpy_helper.to_array(tensor).reshape(-1).view(np.uint8).view(kind.dtype).reshape(kind.shape or ())
    return array
