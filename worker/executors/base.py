"""Executors: they prepare the segments of a plan for a device; a prepared one runs on arrays."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeAlias, cast

from ...comm.arrays import Array
from ...comm.errors import ModelError
from ...compiler.element_types.value_types import TensorType
from ...compiler.onnx_graph.external import NO_MEMORY
from ..partition.plan import Segment
from .settings import EXECUTOR_VARIABLE, ONNXRUNTIME
from .views import OutputView

if TYPE_CHECKING:
    import numpy as np

    from ...comm.arrays import Shape
    from ...comm.collectives.device_choice import DevicePlace
    from ...comm.sharing.device_memory import DeviceArray, MemoryDevice

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
        is written there; where it is None (its shape is unknown before the run), or of another
        shape than the result (which the file declares wrong), a new array is returned. Arrays are
        C-contiguous, of the declared dtype, and held until the next run.
        Raises RankFailed with the node that failed.
        """


class Shareable(Runnable, Protocol):
    """A prepared segment that several threads may run at once, each through a twin of its own."""

    def twin(self) -> Runnable:
        """The same segment and weights, for another thread or for arrays that stay bound to it."""


class PartRunnable(Runnable, Protocol):
    """A prepared part of an optimized model."""

    def output_types(self) -> Mapping[str, TensorType]:
        """The types of the outputs, as the executor knows them."""


class DeviceRunnable(Runnable, Protocol):
    """A prepared segment that also runs on tensors of its device, in the order of its queue."""

    def compute(self, inputs: Sequence[Any]) -> Sequence[Any]:
        """As `run`, from tensors to tensors of the executor; the host does not wait for them."""

    def revision(self) -> Hashable:
        """A value that changes where a captured run would be wrong, as with new weights.

        New weights are on the device from then on.
        """

    def placed(self, weights: Sequence[Operand]) -> tuple[Hashable, Sequence[Any]]:
        """Weights as tensors of the device, and a value that changes with their addresses.

        Weights of the host take the memory of those before, which no run uses meanwhile.
        """


class WorkRecording(Protocol):
    """Work that is to run again and again, in the order in which it is given."""

    def capture(self, work: Callable[[], Sequence[Any]]) -> Sequence[Any]:
        """Capture what `work` puts into the queue as a graph; returns its results."""

    def repeat(self, work: Callable[[], object]) -> None:
        """Call `work` in each run: it cannot be captured."""


class DeviceWork(Protocol):
    """Segments and collectives that run one after the other on tensors of a device.

    `recordable` is whether a device may capture all of it as a graph.
    """

    @property
    def recordable(self) -> bool:
        """See above."""

    def revision(self) -> Hashable:
        """See DeviceRunnable.revision."""

    def compute(
        self, inputs: Sequence[Any], recording: WorkRecording | None = None
    ) -> Sequence[Any]:
        """Put the work on these tensors into the queue, or into a recording; returns its results,
        which each run of the recording fills.
        """

    def recorded(self) -> Any:
        """The collectives captured since the last call of this, for `following`."""

    def following(self, recorded: Any) -> AbstractContextManager[Callable[[], None] | None]:
        """While a run is under way; gives what raises if other ranks keep it from ending.

        `recorded` is what is run again, None for a run that is not captured.
        """


class DeviceQueue(Protocol):
    """The work of a device in the order in which it is given; for one thread."""

    def place(self) -> DevicePlace:
        """The device, as the ranks of a job compare theirs."""

    def memory(self) -> MemoryDevice | None:
        """The device, as one whose memory other processes can map. Raises UsageError."""

    def tensor(self, dtype: np.dtype[Any], shape: Shape) -> Any:
        """A new tensor on the device."""

    def runnable(self, work: DeviceWork, label: str) -> Shareable:
        """`work` as one segment, between arrays of the host; `label` names it in messages."""


class DeviceStream(Protocol):
    """A stream of a device, for sessions of onnxruntime and collectives."""

    @property
    def options(self) -> Mapping[str, str]:
        """The options of a provider that computes in this stream."""

    def queue(self) -> DeviceQueue:
        """The work in this stream."""

    def prepared(
        self, session: Any, segment: Segment, views: Mapping[str, OutputView]
    ) -> DeviceRunnable:
        """A session of a provider with these options, as a segment."""


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


class JoiningExecutor(Executor, Protocol):
    """An executor that is faster where it optimizes the segments of a plan together."""

    def load_part(self, segment: Segment, place: str) -> PartRunnable:
        """Load nodes of the file that `save` wrote, as a segment. Their weights lie where that file
        says. Raises ModelError.
        """


def joining(executor: Executor) -> JoiningExecutor | None:
    """The executor, if it is a JoiningExecutor for its device."""
    return cast(JoiningExecutor, executor) if getattr(executor, "joins", False) else None


def device_queue(executor: Executor) -> DeviceQueue | None:
    """A queue of the executor's device; None where its results are on the host anyway.

    The segments of an executor with queues are DeviceRunnables.
    """
    make: Callable[[], DeviceQueue | None] | None = getattr(executor, "queue", None)
    return make() if make else None


def has_kernel(
    executor: Executor, element_type: int, op_type: str, domain: str, version: int
) -> bool:
    """Whether the executor computes an operator of an opset in float16 or bfloat16.

    One that does not say so computes all in both, or widens numbers itself.
    """
    asked: Callable[[int, str, str, int], bool] | None = getattr(executor, "has_kernel", None)
    return asked(element_type, op_type, domain, version) if asked else True


class ExecutorLayer:
    """An executor in front of another, which saves and loads for it."""

    def __init__(self, executor: Executor) -> None:
        self.name = executor.name
        self.device = executor.device
        self._executor = executor

    def queue(self) -> DeviceQueue | None:
        """See device_queue."""
        return device_queue(self._executor)

    def has_kernel(self, element_type: int, op_type: str, domain: str, version: int) -> bool:
        """See has_kernel."""
        return has_kernel(self._executor, element_type, op_type, domain, version)

    def save(self, segment: Segment, folder: str, place: str) -> None:
        """See Executor.save."""
        self._executor.save(segment, folder, place)

    def load(self, segment: Segment, place: str) -> Runnable:
        """See Executor.load."""
        return self._executor.load(segment, place)
