"""What the workers of a runner run: one program each, over sessions and weights that all of them share."""

from __future__ import annotations

import gc
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from numpy.typing import NDArray

from ..comm.errors import InputError
from ..comm.progress import Stage
from ..comm.rank import Rank
from ..comm.rendezvous import Alone
from .build import read_build
from .companions import Companions
from .dynamic_shapes import DynamicShapes, closed
from .executors.base import Executor, Runnable, Shareable
from .feed import feed, fits
from .loading_line import LoadingLine
from .plan import Plan, Segment
from .program import Program

if TYPE_CHECKING:
    from .cache.build_cache import BuildCache
    from .mindir.crypto import Decryption

Array = NDArray[Any]
Shape = tuple[int, ...]
Shapes = tuple[Shape, ...]
_MOST_SHAPES = 4


class Place(NamedTuple):
    """Where a worker's programs run, and the model cache for their builds. Workers with one place share sessions."""

    executor: Executor
    cache: BuildCache | None


class Programs:
    """The programs of a model file for the shapes that requests have; safe for any number of threads.

    A program is built when a request first needs its shapes; with the exported ones all others are built from the
    model's file, and the four used last are kept. Per shapes and device there is one set of sessions, which all
    workers run at the same time: onnxruntime allows it, and so the weights, packed ones too, are in memory once.
    """

    def __init__(self, path: str, rank: Rank, places: Sequence[Place], decryption: Decryption | None,
                 companions: Companions) -> None:
        """`places` has one per worker. Raises ModelError."""
        self._path, self._rank, self._decryption, self._companions = path, rank, decryption, companions
        self._places = places
        self._resized: OrderedDict[Shapes, list[Program]] = OrderedDict()
        self._lock = threading.Lock()
        self._exported = self._built(None)
        self._shapes = [list(signature.type.shape or ()) for signature in self.plan.inputs]
        self._allowed: DynamicShapes | None = None
        self.declared: Sequence[Shape] | None = None
        """The inputs' shapes by the configuration, where that has them."""

    def declare(self, declared: DynamicShapes, restricts: bool) -> None:
        """Have the inputs in declared shapes; requests of others are errors where that `restricts` them.

        Raises UsageError, and ModelError, where the model cannot have them.
        """
        shapes = declared.shapes_of(self.plan.inputs)
        if closed(shapes) and not self._fit(shapes):
            self._for_shapes(tuple(shapes))
        self.declared, self._allowed = shapes, declared if restricts else None

    @property
    def plan(self) -> Plan:
        """The plan of the model as it was exported."""
        return self._exported[0].plan

    def for_request(self, worker: int, inputs: Sequence[Array]) -> tuple[Program, Mapping[str, Array]]:
        """The worker's program for the shapes of these inputs, and what to feed it. Raises InputError, ModelError."""
        if self.declared:
            inputs = self._as_declared(self.declared, inputs)
        if self._resizable(inputs):
            program = self._for_shapes(tuple(array.shape for array in inputs))[worker]
            return program, {signature.name: array
                             for signature, array in zip(program.plan.inputs, inputs, strict=True)}
        program = self._exported[worker]
        return program, feed(program.plan.inputs, self._shapes, inputs)

    def _as_declared(self, shapes: Sequence[Shape], inputs: Sequence[Array]) -> list[Array]:
        """The inputs; what has a declared shape's size in that shape. InputError where they are not allowed."""
        found = [array.reshape(shape) if closed([shape]) and array.size == prod(shape) else array
                 for array, shape in zip(inputs, shapes, strict=True)]
        if self._allowed:
            self._allowed.check({signature.name: array.shape
                                 for signature, array in zip(self.plan.inputs, found, strict=True)})
        return found

    def _fit(self, shapes: Sequence[Shape]) -> bool:
        return all(fits(signature, shape) for signature, shape in zip(self.plan.inputs, shapes, strict=True))

    def _resizable(self, inputs: Sequence[Array]) -> bool:
        """Whether a program for these shapes may be built: other sizes, but the ranks and types that the model has."""
        if self._fit([array.shape for array in inputs]):
            return False
        return all(array.dtype == signature.type.dtype and min(array.shape, default=1) > 0
                   and (signature.type.shape is None or len(signature.type.shape) == array.ndim)
                   for signature, array in zip(self.plan.inputs, inputs, strict=True))

    def _for_shapes(self, shapes: Shapes) -> list[Program]:
        with self._lock:  # who needs the same shapes waits, instead of building them once more
            if shapes not in self._resized:
                self._resized[shapes] = self._built(shapes)
            self._resized.move_to_end(shapes)
            if len(self._resized) > _MOST_SHAPES:
                self._resized.popitem(last=False)  # a worker that is running it keeps it until it is done
            return self._resized[shapes]

    def _built(self, shapes: Shapes | None) -> list[Program]:
        """One program per worker; those of one executor have sessions in common."""
        made: dict[int, Iterator[Program]] = {}
        for place in self._places:
            if id(place) not in made:
                made[id(place)] = iter(self._twins(place, shapes))
        return [next(made[id(place)]) for place in self._places]

    def _twins(self, place: Place, shapes: Shapes | None) -> list[Program]:
        with LoadingLine(self._path) as line:
            return self._told(place, shapes, line)

    def _told(self, place: Place, shapes: Shapes | None, line: LoadingLine) -> list[Program]:
        executor, cache = place
        line.enter(Stage.READING)
        build = read_build(self._path, self._rank, executor, shapes, self._decryption, cache, self._companions)
        count = sum(other is place for other in self._places)
        load = _shared(build.load)
        line.enter(Stage.BUILDING)
        programs = [Program.ready(build._replace(load=load), Alone(self._rank).collectives([], []))
                    for _ in range(count)]
        if build.memory:
            del build, load
            gc.collect()  # lowering may leave cycles, which would hold the plain text
        elif cache and not build.kept:
            cache.keep(build.plan, shapes, build.files)
        return programs


def _shared(load: Callable[[Segment], Runnable]) -> Callable[[Segment], Runnable]:
    """`load`, once per segment; who asks again gets a twin."""
    loaded: dict[int, Runnable] = {}

    def shared(segment: Segment) -> Runnable:
        known = loaded.get(id(segment))
        if known is not None:
            return cast(Shareable, known).twin()
        return loaded.setdefault(id(segment), load(segment))

    return shared


def input_arrays(plan: Plan, values: Sequence[Any]) -> list[Array]:
    """The data of a request's tensors in the order of the model's inputs; InputError where some are missing."""
    if len(values) != len(plan.inputs):
        raise InputError(f"model input len:{len(plan.inputs)} not equal input len:{len(values)}!")
    arrays = []
    for signature, value in zip(plan.inputs, values, strict=True):
        array = value.data()
        if array is None:
            raise InputError(f"the input '{signature.name}' never got any data: call set_data_from_numpy.")
        arrays.append(array)
    return arrays
