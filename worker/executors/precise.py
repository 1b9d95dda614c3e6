"""An executor in front of another: it first gives the nodes of a segment the precision that the user asked for."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from functools import partial
from typing import Any

import msgspec
from numpy.typing import NDArray
from onnx import ModelProto, NodeProto, TensorProto, numpy_helper

from ...comm.errors import ModelError
from ..element_types import HALF, has_halves
from ..external import NO_MEMORY, external_array
from ..plan import Segment
from ..precision import Precision
from .base import Executor, Runnable
from .half_kernels import has_half_kernel

_LOG = logging.getLogger("rankmesh")
_warned: set[str] = set()  # once per process and device


class Precise:
    """Retypes segments for `executor`, which runs on `device`."""

    def __init__(self, executor: Executor, precision: Precision, device: str) -> None:
        self.name = executor.name
        self._executor = executor
        self._precision = precision
        self._device = device

    def prepare(self, segment: Segment, folder: str, memory: Mapping[str, memoryview] = NO_MEMORY) -> Runnable:
        """See Executor.prepare."""
        return self._executor.prepare(self._asked(segment, folder, memory), folder, memory)

    def save(self, segment: Segment, folder: str, place: str) -> None:
        """See Executor.save."""
        self._executor.save(self._asked(segment, folder, NO_MEMORY), folder, place)

    def load(self, segment: Segment, place: str) -> Runnable:
        """See Executor.load."""
        return self._executor.load(segment, place)

    @property
    def options(self) -> str:
        """See Executor.options."""
        return f"{self._executor.options} {self._precision.mode} {sorted(self._precision.nodes.items())}"

    def _asked(self, segment: Segment, folder: str, memory: Mapping[str, memoryview]) -> Segment:
        """The segment in the precision that was asked for."""
        if not self._concerns(segment.model):
            return segment
        self._warn()
        return msgspec.structs.replace(segment, model=self._retyped(segment, folder, memory))

    def _concerns(self, model: ModelProto) -> bool:
        """Whether anything may change: for most models, whose numbers are float32 anyway, nothing does."""
        precision = self._precision
        return bool(precision.nodes) or precision.mode == HALF or (
            precision.mode is not None and has_halves(model.graph))

    def _retyped(self, segment: Segment, folder: str, memory: Mapping[str, memoryview]) -> ModelProto:
        def array_of(tensor: TensorProto) -> NDArray[Any]:
            if tensor.data_location == TensorProto.EXTERNAL:
                return external_array(tensor, folder, memory)
            array: NDArray[Any] = numpy_helper.to_array(tensor)
            return array

        from ..retype import retyped  # few models need it

        try:
            return retyped(segment.model, self._chosen, partial(has_half_kernel, self._device), array_of)
        except (ValueError, TypeError) as error:
            raise ModelError(f"the segment that ends in {segment.outputs[0]} cannot be given another precision: "
                             f"{error}. Leave precision_mode and [execution_plan] away.") from error

    def _chosen(self, node: NodeProto) -> tuple[int | None, bool]:
        own = self._precision.node_type(node)
        return (own, True) if own is not None else (self._precision.mode, False)

    def _warn(self) -> None:
        wanted = HALF == self._precision.mode or HALF in self._precision.nodes.values()
        if wanted and self._device == "cpu" and self._device not in _warned:
            _warned.add(self._device)
            _LOG.warning("float16 was asked for on a CPU, which has few kernels for it: it runs slower than float32, "
                         "on numbers rounded to float16.")
