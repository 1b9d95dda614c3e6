"""Live weights as a weight source: shared between processes, or changed while the model runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from typing import Generic, NamedTuple, Protocol, TypeVar, cast

from ...comm.arrays import Array
from ...comm.collectives.backend import Collectives
from ...comm.errors import UsageError
from ...comm.job.rank import Rank
from ...comm.sharing.device_memory import MemoryDevice
from ...comm.sharing.memory_device import memory_device
from ...compiler.onnx_graph.external import NO_MEMORY
from ..cache.build_cache import Build
from ..executors.base import Executor, ExecutorDevice
from ..executors.live import LiveExecutor, LiveSegment
from ..executors.settings import EXECUTOR_VARIABLE, TORCH
from ..partition.plan import Plan, Segment
from .control import WeightSnapshot
from .live_sessions import LiveSessions
from .plan_weights import with_live_weights
from .readers import VersionAgreement
from .store import WeightStore

Memory = Mapping[str, memoryview]


class WeightDevice(NamedTuple):
    """The device that weights lie on: its name in every process, and the GPU where it is one."""

    name: str
    gpu: MemoryDevice | None

    @classmethod
    def of(cls, device: ExecutorDevice) -> WeightDevice:
        """The device of an executor."""
        found = memory_device(device.kind, device.number)
        return cls(found.name if found else device.kind, found)


class LiveWeights(Protocol):
    """One model's weights, over all the programs that are made of it one after the other."""

    store: WeightStore

    @property
    def version(self) -> int:
        """How many updates are in effect."""

    @property
    def handle(self) -> int | None:
        """The number by which listed processes find the weights; None where none are shared."""

    def hold(self, agreement: VersionAgreement | None) -> AbstractContextManager[WeightSnapshot]:
        """Keep the snapshot to compute with unchanged; the same one on all ranks that agree."""

    def install(self, sessions: LiveSessions) -> AbstractContextManager[WeightSnapshot]:
        """While `sessions` are made for the snapshot; from then on they are the ones that run."""

    def close(self) -> None:
        """End the sharing."""


Weights = TypeVar("Weights", bound=LiveWeights)


class LiveSource(Generic[Weights]):
    """See WeightSource. The first program opens the weights, which later ones use again."""

    live = True

    def __init__(self, open_weights: Callable[[Plan, Memory, Rank, WeightDevice], Weights]) -> None:
        """`open_weights` takes the plan, and the plain text of encrypted files."""
        self._open = open_weights
        self._opened: list[Weights] = []

    @classmethod
    def of(cls, weights: Weights) -> LiveSource[Weights]:
        """The source of weights that are open already."""
        return cls(lambda *_: weights)

    @property
    def weights(self) -> Weights:
        """The weights, once a program has opened them."""
        return self._opened[0]

    def executor(self, own: Executor) -> LiveExecutor:
        """See WeightSource.executor. Raises UsageError for a device that cannot share memory."""
        if own.device.kind == "ascend" and own.name != TORCH:
            raise UsageError(
                "device ascend: weights are shared and updated by the torch executor only. Choose "
                f"that ({EXECUTOR_VARIABLE}={TORCH}), leave shareable_weight_pid_list, "
                "shareable_weight_mem_handle and variable_weights_file away, or run on the CPU "
                "(RANKMESH_DEVICE=cpu)."
            )
        return LiveExecutor(own)

    @contextmanager
    def opening(
        self, build: Build, collectives: Collectives, rank: Rank, executor: Executor
    ) -> Iterator[tuple[Build, HeldWeights]]:
        """See WeightSource.opening. Raises what opening the weights raises."""
        if not self._opened:
            device = WeightDevice.of(executor.device)
            self._opened.append(self._open(build.plan, build.memory, rank, device))
        weights = self.weights
        plan = with_live_weights(build.plan, weights.store.index)

        def prepare(segment: Segment, memory: Memory) -> LiveSegment:
            return cast(LiveSegment, executor.prepare(segment, plan.folder, memory or NO_MEMORY))

        sessions = LiveSessions(plan, weights.store, prepare)
        agreement = VersionAgreement(collectives, rank) if rank.world_size > 1 else None
        with weights.install(sessions) as snapshot:
            memory = {**build.memory, **sessions.memory(plan.constants, snapshot)}
            opened = Build(plan, memory, lambda segment: sessions.load(segment, snapshot), False)
            yield opened, HeldWeights(weights, sessions, agreement)

    def close(self) -> None:
        """See WeightSource.close."""
        for weights in self._opened:
            weights.close()


class HeldWeights:
    """See ProgramWeights: the live weights of one program, held while a request runs."""

    def __init__(
        self, weights: LiveWeights, sessions: LiveSessions, agreement: VersionAgreement | None
    ) -> None:
        self._weights = weights
        self._sessions = sessions
        self._agreement = agreement

    def keep_current(self, constants: dict[str, Array]) -> None:
        """See ProgramWeights.keep_current."""
        self._sessions.keep_current(constants)

    @contextmanager
    def hold(self) -> Iterator[None]:
        """See ProgramWeights.hold."""
        with self._weights.hold(self._agreement) as snapshot:
            self._sessions.use(snapshot)
            yield
