"""Simulated deployment: one model on simulated hosts, behind the real scheduler and supervision."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

from rankmesh.comm.job.placement import RankSpec
from rankmesh.comm.job.rank import Rank
from rankmesh.comm.request_memory.owned_arena import OwnedArena
from rankmesh.comm.serving.caller_slots import CallerSlots
from rankmesh.comm.serving.orders import ServeJob
from rankmesh.comm.serving.python_function import PythonFunction
from rankmesh.orchestrator.agents.agent_pool import AgentPool
from rankmesh.orchestrator.agents.user_agents import UserAgents
from rankmesh.orchestrator.config.agent_settings import AgentSettings
from rankmesh.orchestrator.config.settings import ModelSettings
from rankmesh.orchestrator.replica.replica import Replica
from rankmesh.orchestrator.replica.replica_spec import ReplicaSpec
from rankmesh.orchestrator.scheduling.client import ModelClient
from rankmesh.orchestrator.scheduling.dispatcher import Dispatcher

from .chance import ClusterSettings
from .cluster import Cluster
from .virtual_time import VirtualClock, VirtualLoop

_FUNCTION = PythonFunction("simulated.py", "answer", (), ())  # no files, which agents would fetch
_JOB = ServeJob(
    "simulated.py", 1, "cpu", None, 1, False, False, -1, -1, -1, [], 0, [], function=_FUNCTION
)
_NOWHERE = AgentSettings("127.0.0.1:1", trusted_networks=("10.0.0.0/8",))
_MEMORY = 1 << 30
_WITHIN = 3600.0
"""Seconds for the start and the end of all ranks."""


class Deployment:
    """`replicas` replicas of `ranks` ranks on a cluster, with the client of their model."""

    def __init__(
        self, replicas: int, ranks: int, settings: ClusterSettings, seed: int, clock: VirtualClock
    ) -> None:
        self.clock = clock
        self.loop = VirtualLoop(clock)
        self.arena = OwnedArena(_MEMORY, _MEMORY)
        self.slots = CallerSlots(CallerSlots.create(), spare=False)
        pool = AgentPool(_NOWHERE, self.arena, self.slots, self.loop, UserAgents())
        self.cluster = Cluster(settings, self.loop, pool, self.arena, seed)
        model = ModelSettings("simulated.mindir", queue_limit=1_000_000)
        self.dispatcher = Dispatcher(model, replicas, ranks, self.arena, self.slots, self.loop)
        specs = tuple(
            RankSpec(Rank(rank, ranks, rank, ranks, "", 0), (), 1) for rank in range(ranks)
        )
        self.replicas = [
            Replica(ReplicaSpec(index, specs, _JOB, model, 60.0), self.dispatcher, pool, self.loop)
            for index in range(replicas)
        ]
        self.client: ModelClient | None = None

    def start(self) -> None:
        """Start all replicas, and wait until they are ready."""
        self.dispatcher.start([replica.start for replica in self.replicas], one_first=False)
        admission = self.dispatcher.scheduler.admission
        self.loop.turn_until(lambda: admission.started, self.clock.now + _WITHIN)
        self.client = ModelClient(
            self.dispatcher.wait_started(), self.dispatcher, self.replicas, self.slots, self.loop
        )
        self.cluster.begin_failures()

    def settled(self) -> bool:
        """Whether all replicas answer requests."""
        return all(replica.state.settled for replica in self.replicas)

    def end(self) -> None:
        """End all replicas, and free their memory."""
        left = set(self.replicas)
        for replica in self.replicas:
            replica.stop(partial(left.discard, replica))
        self.loop.turn_until(lambda: not left, self.clock.now + _WITHIN)
        self.arena.close()
        self.slots.close()
        self.loop.close()


@contextmanager
def deployed(
    replicas: int, ranks: int, settings: ClusterSettings, seed: int
) -> Iterator[Deployment]:
    """A deployment that is ready; until the end of this context, time is virtual."""
    clock = VirtualClock()
    with clock.running():
        deployment = Deployment(replicas, ranks, settings, seed, clock)
        deployment.start()
        yield deployment
        deployment.end()
