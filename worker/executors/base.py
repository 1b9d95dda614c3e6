"""Executors: they prepare the segments of a plan for a device; a prepared one runs on arrays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeAlias

from ...comm.arrays import Array
from ...comm.errors import ModelError
from ..onnx_graph.external import NO_MEMORY
from ..partition.plan import Segment
from .settings import EXECUTOR_VARIABLE, ONNXRUNTIME

if TYPE_CHECKING:
    from ...comm.sharing.device_memory import DeviceArray

Operand: TypeAlias = "Array | DeviceArray"
"""An array in memory of the host or of a GPU."""


class UnsupportedNodes(ModelError):
    """An executor cannot run some nodes; the text lists all of them, as `nodes` does."""

    def __init__(self, executor: str, nodes: Sequence[str]) -> None:
        super().__init__(
            f"the {executor} executor cannot run {len(nodes)} nodes: {'; '.join(nodes)}. "
            f"Run the model with {EXECUTOR_VARIABLE}={ONNXRUNTIME}."
        )
        self.executor = executor
        self.nodes = tuple(nodes)


class ExecutorDevice(NamedTuple):
    """A device: its kind ("cpu", "gpu" or "ascend"), and its number among those of the kind."""

    kind: str
    number: int


class Runnable(Protocol):
    """One prepared segment; used from one thread at a time."""

    def run(self, inputs: Sequence[Operand], outputs: Sequence[Array | None]) -> Sequence[Array]:
        """Compute the segment's outputs from its inputs, both in the segment's order.

        Weights among the inputs may be on the device. Where `outputs[i]` is an array, the result
        is written there; where it is None (its shape is unknown before the run) a new array is
        returned. Arrays are C-contiguous, of the declared dtype, and held until the next run.
        Raises RankFailed with the node that failed.
        """


class Shareable(Runnable, Protocol):
    """A prepared segment that several threads may run at once, each through a twin of its own."""

    def twin(self) -> Runnable:
        """The same segment and weights, for another thread or for arrays that stay bound to it."""


class Executor(Protocol):
    """Prepares segments for one device."""

    name: str
    device: ExecutorDevice

    @property
    def options(self) -> str:
        """Everything but the segment that `save`d files depend on, in words."""

    def prepare(
        self, segment: Segment, folder: str, memory: Mapping[str, memoryview] = NO_MEMORY
    ) -> Runnable:
        """Load one segment. Raises ModelError where it cannot be loaded, UnsupportedNodes where it
        has nodes that the executor cannot run.

        External initializers lie inside `folder`, or in `memory` where that has their location.
        Initializers in memory are copied, so that it can be freed, and never written to a file.
        """

    def save(self, segment: Segment, folder: str, place: str) -> None:
        """Write the segment as this executor prepares it to the new file `place`.

        Its weights go beside it. Raises ModelError or OSError; files may then be half written.
        """

    def load(self, segment: Segment, place: str) -> Runnable:
        """Load the file that `save` wrote for `segment`. Raises ModelError.

        Processes that load the same file share its weights.
        """


class ExecutorLayer:
    """An executor in front of another, which saves and loads for it."""

    def __init__(self, executor: Executor) -> None:
        self.name = executor.name
        self.device = executor.device
        self._executor = executor

    def save(self, segment: Segment, folder: str, place: str) -> None:
        """See Executor.save."""
        self._executor.save(segment, folder, place)

    def load(self, segment: Segment, place: str) -> Runnable:
        """See Executor.load."""
        return self._executor.load(segment, place)
