"""Live executor: weights that may change become inputs of the session, which folds none of them."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from copy import copy
from typing import Any, cast

import msgspec
import numpy as np
from onnx import ModelProto

from ...comm.arrays import Array
from ...compiler.element_types import dtypes
from ...compiler.element_types.value_types import TensorType
from ...compiler.onnx_graph.constant_folding import folded
from ...compiler.onnx_graph.external import NO_MEMORY, lies_in
from ...compiler.onnx_graph.onnx_values import value_info
from ...compiler.onnx_graph.segment_model import with_initializers
from ..partition.plan import Segment
from .base import DeviceRunnable, ExecutorLayer, Operand, Runnable


class LiveSegment:
    """A prepared segment that reads the weights `direct` where they lie, as `use` tells it.

    Its other weights are part of its session.
    """

    def __init__(self, prepared: Runnable, direct: Sequence[str]) -> None:
        self.direct = tuple(direct)
        self._prepared = prepared
        self._weights: tuple[Operand, ...] = ()
        self._on_device: tuple[tuple[Operand, ...], Hashable, Sequence[Any]] = ((), None, ())

    def use(self, arrays: Mapping[str, Operand]) -> None:
        """Read these weights from the next run on; nothing is copied.

        Weights on a device come as new objects, so that they are bound anew: binding copies them
        where the session runs on the host.
        """
        self._weights = tuple(
            one if isinstance(one, np.ndarray) else copy(one)
            for one in (arrays[name] for name in self.direct)
        )

    def run(self, inputs: Sequence[Operand], outputs: Sequence[Array | None]) -> Sequence[Array]:
        """See Runnable.run."""
        return self._prepared.run((*inputs, *self._weights), outputs)

    def compute(self, inputs: Sequence[Any]) -> Sequence[Any]:
        """See DeviceRunnable.compute; on the weights of the last `revision`."""
        return cast(DeviceRunnable, self._prepared).compute((*inputs, *self._on_device[2]))

    def revision(self) -> Hashable:
        """See DeviceRunnable.revision."""
        if self._on_device[0] is not self._weights:
            prepared = cast(DeviceRunnable, self._prepared)
            self._on_device = (self._weights, *prepared.placed(self._weights))
        return self._on_device[1]


class LiveExecutor(ExecutorLayer):
    """Prepares segments whose initializers in memory stay where they are, and may change there.

    A session that has weights as inputs can neither fold nor fuse nor repack them, so it never
    computes with old ones, and it is made in milliseconds. It is as fast as a session that has
    them as initializers and does not repack them.
    """

    @property
    def options(self) -> str:
        """See Executor.options."""
        return f"{self._executor.options} live"

    def prepare(
        self, segment: Segment, folder: str, memory: Mapping[str, memoryview] = NO_MEMORY
    ) -> LiveSegment:
        """See Executor.prepare. The session keeps the weights that it computes with only once."""
        graph = segment.model.graph
        weights = {record.name for record in graph.initializer if lies_in(memory, record)}
        direct = sorted(weights - folded(graph, weights))
        opened = msgspec.structs.replace(
            segment, model=_with_inputs(segment.model, direct), inputs=(*segment.inputs, *direct)
        )
        return LiveSegment(self._executor.prepare(opened, folder, memory), direct)


def _with_inputs(model: ModelProto, names: Sequence[str]) -> ModelProto:
    """The model with the initializers `names` as inputs behind its own, in this order."""
    records = {record.name: record for record in model.graph.initializer}
    chosen = set(names)
    inputs = [
        value_info(
            name, TensorType(dtypes.from_onnx(records[name].data_type), tuple(records[name].dims))
        )
        for name in names
    ]
    return with_initializers(
        model, (record for name, record in records.items() if name not in chosen), inputs
    )
