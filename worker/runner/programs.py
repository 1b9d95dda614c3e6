"""Programs of a runner: one per worker and input shapes, over sessions that all workers share."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from math import prod

from ...comm.arrays import Array, Shape
from ...comm.job.rank import Rank
from ...comm.rendezvous.rendezvous import SingleRank
from ..partition.plan import Plan
from ..runtime.opening import open_twins
from ..runtime.program import Program
from ..runtime.program_spec import ProgramSpec
from ..runtime.weight_source import WeightSource
from ..session.dynamic_shapes import DynamicShapes, closed
from ..session.loading_line import LoadingLine, ShownRendezvous
from ..session.request_tensors import all_fit, feed

Shapes = tuple[Shape, ...]
_MOST_SHAPES = 4


class RunnerPrograms:
    """The programs of a model file for the input shapes of requests; safe for any number of
    threads.

    A program is built when a request first needs its shapes. Those of the exported shapes stay, of
    the others the four used last. Per shapes and device there is one set of sessions, which all
    workers run at the same time, as onnxruntime allows: the weights are in memory once.
    """

    def __init__(self, specs: Sequence[ProgramSpec], rank: Rank, source: WeightSource) -> None:
        """`specs` has one per worker; workers with one spec object share sessions. `source`
        is where the weights come from. Raises ModelError.
        """
        self._specs = specs
        self._rank = rank
        self._source = source
        self._resized: OrderedDict[Shapes, list[Program]] = OrderedDict()
        self._lock = threading.Lock()
        self._exported = self._built(None)
        self._shapes = [list(signature.type.shape or ()) for signature in self.plan.inputs]
        self._allowed: DynamicShapes | None = None
        self.declared: Sequence[Shape] | None = None
        """The inputs' shapes in the order of the model, where the configuration declares them."""

    def declare(self, declared: DynamicShapes, restricts: bool) -> None:
        """Give the inputs their declared shapes; where that `restricts` requests, others are
        errors.

        Raises UsageError, and ModelError, where the model cannot have them.
        """
        shapes = declared.shapes_of(self.plan.inputs)
        if closed(shapes) and not all_fit(self.plan.inputs, shapes):
            self._for_shapes(tuple(shapes))
        self.declared = shapes
        self._allowed = declared if restricts else None

    @property
    def plan(self) -> Plan:
        """The plan of the model as it was exported."""
        return self._exported[0].plan

    def for_request(
        self, worker: int, inputs: Sequence[Array]
    ) -> tuple[Program, Mapping[str, Array]]:
        """The worker's program for the shapes of these inputs, and what to feed it. Raises
        InputError, ModelError.
        """
        if self.declared:
            inputs = self._as_declared(self.declared, inputs)
        if self._resizable(inputs):
            program = self._for_shapes(tuple(array.shape for array in inputs))[worker]
            return program, {
                signature.name: array
                for signature, array in zip(program.plan.inputs, inputs, strict=True)
            }
        program = self._exported[worker]
        return program, feed(program.plan.inputs, self._shapes, inputs)

    def _as_declared(self, shapes: Sequence[Shape], inputs: Sequence[Array]) -> list[Array]:
        """The inputs, each in its declared shape where it has that size. Raises InputError for
        shapes that the profiles do not allow.
        """
        found = [
            array.reshape(shape) if closed([shape]) and array.size == prod(shape) else array
            for array, shape in zip(inputs, shapes, strict=True)
        ]
        if self._allowed:
            self._allowed.check(
                {
                    signature.name: array.shape
                    for signature, array in zip(self.plan.inputs, found, strict=True)
                }
            )
        return found

    def _resizable(self, inputs: Sequence[Array]) -> bool:
        """Whether a program for these shapes may be built: other sizes, but the ranks and types
        that the model has.
        """
        if all_fit(self.plan.inputs, [array.shape for array in inputs]):
            return False
        return all(
            array.dtype == signature.type.dtype
            and min(array.shape, default=1) > 0
            and (signature.type.shape is None or len(signature.type.shape) == array.ndim)
            for signature, array in zip(self.plan.inputs, inputs, strict=True)
        )

    def _for_shapes(self, shapes: Shapes) -> list[Program]:
        with self._lock:  # a request for the same shapes waits instead of building them again
            if shapes not in self._resized:
                self._resized[shapes] = self._built(shapes)
            self._resized.move_to_end(shapes)
            if len(self._resized) > _MOST_SHAPES:
                self._resized.popitem(
                    last=False
                )  # a worker that is running it keeps it until it is done
            return self._resized[shapes]

    def _built(self, shapes: Shapes | None) -> list[Program]:
        """One program per worker."""
        resized = {id(spec): spec.resized(shapes) for spec in self._specs}
        specs = [resized[id(spec)] for spec in self._specs]
        with LoadingLine(specs[0].path) as line:
            return open_twins(specs, ShownRendezvous(SingleRank(self._rank), line), self._source)
