"""Served model: one version of a model, with its replicas, its requests and its weights."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from ..comm.errors import Closed
from ..comm.host.resources import memory_limit
from ..comm.job.environment import deadline_from_environment
from ..comm.request_memory.owned_arena import OwnedArena
from ..comm.serving.caller_slots import CallerSlots
from ..comm.serving.orders import ServeJob
from ..comm.serving.python_function import PythonFunction
from ..comm.serving.tensor_spec import TensorSpec
from ..comm.serving.weight_slices import read_weight_slices
from .config.agent_settings import AgentSettings
from .config.class_labels import class_labels_of, require_outputs
from .config.published_model import RepositoryModel
from .config.python_settings import PythonSettings
from .config.settings import OFF, ModelSettings
from .config.sliced_models import SlicedModels
from .config.topology import ModelFiles, ReplicaPlan
from .event_loop.loop import EventLoopThread
from .rank_launchers import launcher_of
from .replica.replica import Replica
from .replica.replica_owner import ReplicaOwner
from .replica.replica_spec import ReplicaSpec
from .replica.supervised_ranks import RankLauncher
from .requests.metrics import ModelMetrics
from .scheduling.client import ModelClient
from .scheduling.dispatcher import Dispatcher
from .served import Served
from .weights.weight_updates import WeightUpdates

_LOG = logging.getLogger("rankmesh.orchestrator")
_LOOK = 0.5
"""Seconds between looks whether the event loop still runs."""

_LARGE = 256 << 20
"""Bytes of a model from which one replica starts before the others.

They then map what it has put into the model cache; else all would pack the weights at once.
"""


@dataclass(frozen=True, slots=True, eq=False)
class SharedParts:
    """The parts that all models of an orchestrator share: the memory of tensors and of updated
    weights, the slots of callers, the event loop, and what starts ranks.
    """

    arena: OwnedArena
    weights: OwnedArena
    slots: CallerSlots
    loop: EventLoopThread
    launcher: RankLauncher

    @classmethod
    def made(cls, lease_limit: int, agents: AgentSettings | None) -> SharedParts:
        """New parts; results that callers hold may take `lease_limit` bytes."""
        largest = memory_limit().size
        arena, weights = OwnedArena(lease_limit, largest), OwnedArena(0, largest)
        slots, loop = CallerSlots(CallerSlots.create(), spare=True), EventLoopThread()
        return cls(arena, weights, slots, loop, launcher_of(agents, arena, slots, loop))


@dataclass(frozen=True, slots=True, eq=False)
class ModelPlan:
    """One model that is to start: its settings as they were given, its files, and its replicas."""

    given: ModelSettings
    files: ModelFiles
    replicas: Sequence[ReplicaPlan]
    sliced: SlicedModels
    """The shards that the model cache keeps for this model."""

    spin: bool
    """Whether ranks have cores enough to look for orders before they sleep."""


class ServedModel(Served):
    """One version of a model, from the start of its ranks to their end."""

    def __init__(self, version: int, plan: ModelPlan, parts: SharedParts) -> None:
        """No process is started yet. Raises ModelError, UsageError where files are missing."""
        settings, shards = plan.files.settings, plan.files.shards
        super().__init__(version, plan.given, class_labels_of(settings))
        self.label = settings.label
        self.ranks = tuple(spec for replica in plan.replicas for spec in replica.ranks)
        world_size = len(plan.replicas[0].ranks)
        shards.require(world_size)
        self.dispatcher = Dispatcher(
            settings, len(plan.replicas), world_size, parts.arena, parts.slots, parts.loop, version
        )
        self.journal = self.dispatcher.journal
        self.table = self.dispatcher.scheduler
        large = shards.bytes >= _LARGE and settings.cache_folder != OFF
        self._one_first = len(plan.replicas) > 1 and large
        self.replicas = tuple(self._replica(plan, one, parts) for one in plan.replicas)
        slices = read_weight_slices(shards.pattern, world_size) if shards.numbered else None
        self._updates = WeightUpdates(
            settings,
            self.dispatcher.scheduler,
            self.replicas,
            parts.weights,
            parts.loop,
            slices,
        )
        self._parts = parts
        self._sliced = plan.sliced

    @property
    def name(self) -> str:
        """See Served.name."""
        return f"model '{self.label}' version {self.version}"

    def require_steps(self, find: Callable[[str, int | None], Served]) -> None:
        """See Served.require_steps: a model has none."""

    @property
    def updates(self) -> WeightUpdates:
        """See Served.updates."""
        return self._updates

    @property
    def waiting(self) -> int:
        """See Served.waiting."""
        return self.dispatcher.scheduler.waiting

    def metrics(self) -> ModelMetrics:
        """See Served.metrics."""
        scheduler = self.dispatcher.scheduler
        return {
            **self.dispatcher.counters.snapshot(),
            "queue_depth": scheduler.waiting,
            "running": scheduler.running,
            "weights_version": scheduler.weights.version,
        }

    def start(self) -> None:
        """Start the replicas; in the event loop's thread."""
        self.dispatcher.start([replica.start for replica in self.replicas], self._one_first)

    def wait_started(self) -> None:
        """Wait until the ranks are ready; raises what went wrong."""
        interface = self.dispatcher.wait_started()
        require_outputs(self.label, self.labels, interface.report.outputs)
        parts = self._parts
        self.client = ModelClient(
            interface, self.dispatcher, self.replicas, parts.slots, parts.loop
        )

    def drain(self, subject: str) -> None:
        """See Served.drain."""
        self.dispatcher.scheduler.drain(subject)

    def wait_idle(self, seconds: float | None) -> bool:
        """See Served.wait_idle."""
        return self.dispatcher.replies.wait_idle(seconds)

    def give_up(self, text: str) -> None:
        """See Served.give_up."""
        self.dispatcher.give_up(Closed(text))

    def release(self) -> None:
        """Free what the ranks needed, which have ended; a thread that waits for them goes on."""
        self.dispatcher.scheduler.admission.start()
        self._updates.forget()
        self._sliced.close()

    def _replica(self, plan: ModelPlan, replica: ReplicaPlan, parts: SharedParts) -> Replica:
        settings = plan.files.settings
        function = _function(settings)
        return replica_of(
            plan,
            replica,
            parts,
            self.dispatcher,
            "cpu" if function else settings.device or "",
            first=self._one_first and replica.replica == 0,
            warm=settings.warm_up,
            executor=settings.executor or "",
            precision_mode=settings.precision_mode or "",
            execution_plan=dict(settings.execution_plan or {}),
            samples=settings.samples if isinstance(settings, RepositoryModel) else (),
            function=function,
        )


def replica_of(
    plan: ModelPlan,
    replica: ReplicaPlan,
    parts: SharedParts,
    owner: ReplicaOwner,
    device: str,
    **job: Any,
) -> Replica:
    """A replica of a model, which is not started yet; `job` are further fields of its ServeJob."""
    settings, shards = plan.files.settings, plan.files.shards
    served = ServeJob(
        shards.pattern,
        shards.count,
        device,
        settings.collectives,
        1,
        plan.spin,
        parts.slots.spare,
        -1,
        parts.arena.fd,
        -1,
        list(parts.slots.files),
        os.getpid(),
        [],
        updates=parts.weights.fd,
        allow_equal_shards=settings.allow_equal_shards,
        cache=settings.cache_folder,
        **job,
    )
    spec = ReplicaSpec(
        replica.replica,
        replica.ranks,
        served,
        settings,
        deadline_from_environment(),
        plan.files.table,
    )
    return Replica(spec, owner, parts.launcher, parts.loop)


def _function(settings: ModelSettings) -> PythonFunction | None:
    """The Python function that a model is; None for models in files."""
    if not isinstance(settings, PythonSettings):
        return None
    inputs = tuple(TensorSpec(one.name, one.dtype, one.dims) for one in settings.inputs)
    outputs = tuple(TensorSpec(one.name, one.dtype, one.dims) for one in settings.outputs)
    return PythonFunction(settings.source, settings.function, inputs, outputs)


def end_replicas(replicas: Sequence[Replica], ended: Callable[[], None]) -> None:
    """End all of them in order, side by side, then call `ended`; in the event loop's thread."""
    left = set(replicas)

    def one_less(replica: Replica) -> None:
        left.discard(replica)
        if not left:
            ended()

    if not left:
        ended()
    for replica in replicas:
        try:
            replica.stop(partial(one_less, replica))
        except Exception:  # of any class: the other replicas have to end, and the loop
            index = replica.spec.index
            _LOG.exception("replica %d did not end in order", index, extra={"replica": index})
            one_less(replica)


def wait_ended(replicas: Sequence[Replica], loop: EventLoopThread) -> None:
    """End all of them by the thread of `loop`, and wait until they have; in another thread."""
    ended = threading.Event()
    loop.call_soon(lambda: end_replicas(replicas, ended.set))
    while loop.is_alive() and not ended.wait(_LOOK):
        pass
