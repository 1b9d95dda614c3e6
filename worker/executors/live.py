"""An executor in front of another: weights that may change become inputs of the session, which nothing can bake in."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy

import msgspec
import numpy as np
from onnx import ModelProto

from .. import dtypes
from ..external import NO_MEMORY, lies_in
from ..folding import folded
from ..mindir.graph import TensorType
from ..onnx_values import value_info
from ..plan import Segment
from ..segment_model import with_initializers
from .base import Array, Executor, Operand, Runnable


class LiveSegment:
    """A prepared segment that reads the weights `direct` where they lie; `use` says where.

    All others of its weights are part of what was prepared.
    """

    def __init__(self, prepared: Runnable, direct: Sequence[str]) -> None:
        self.direct = tuple(direct)
        self._prepared = prepared
        self._weights: tuple[Operand, ...] = ()

    def use(self, arrays: Mapping[str, Operand]) -> None:
        """Read these weights from the next run on; nothing is copied.

        Those on a device come as new objects, which are bound anew: for what runs on the host, binding copies them.
        """
        self._weights = tuple(one if isinstance(one, np.ndarray) else copy(one)
                              for one in (arrays[name] for name in self.direct))

    def run(self, inputs: Sequence[Operand], outputs: Sequence[Array | None]) -> Sequence[Array]:
        """See Runnable.run."""
        return self._prepared.run((*inputs, *self._weights), outputs)


class Live:
    """Prepares segments for `executor` whose initializers in memory stay where they are, and may change there.

    A session that has weights as inputs can neither fold nor fuse nor repack them, so it never computes with old
    ones, and it is made in milliseconds; it is as fast as one that has them as initializers and does not repack.
    """

    def __init__(self, executor: Executor) -> None:
        self.name = executor.name
        self._executor = executor

    @property
    def options(self) -> str:
        """See Executor.options."""
        return f"{self._executor.options} live"

    def prepare(self, segment: Segment, folder: str, memory: Mapping[str, memoryview] = NO_MEMORY) -> LiveSegment:
        """See Executor.prepare; what the session would only compute with once, when it is made, is given to it."""
        graph = segment.model.graph
        weights = {record.name for record in graph.initializer if lies_in(memory, record)}
        direct = sorted(weights - folded(graph, weights))
        opened = msgspec.structs.replace(segment, model=_with_inputs(segment.model, direct),
                                         inputs=(*segment.inputs, *direct))
        return LiveSegment(self._executor.prepare(opened, folder, memory), direct)

    def save(self, segment: Segment, folder: str, place: str) -> None:
        """See Executor.save."""
        self._executor.save(segment, folder, place)

    def load(self, segment: Segment, place: str) -> Runnable:
        """See Executor.load."""
        return self._executor.load(segment, place)


def _with_inputs(model: ModelProto, names: Sequence[str]) -> ModelProto:
    """The model with the initializers `names` as inputs behind its own, in this order."""
    records = {record.name: record for record in model.graph.initializer}
    inputs = [value_info(name, TensorType(dtypes.from_onnx(records[name].data_type), tuple(records[name].dims)))
              for name in names]
    chosen = set(names)
    return with_initializers(model, (record for name, record in records.items() if name not in chosen), inputs)
