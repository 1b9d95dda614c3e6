"""Ray placement: the hosts that Ray has given one replica, and the agents there."""

from __future__ import annotations

import enum
import itertools
import time
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from ...comm.errors import RankmeshError
from ...comm.transport.key_file import Keys
from ..replica.replica_spec import ReplicaSpec
from .bundles import RankNeeds, bundles_of
from .ray_calls import ray_module, within
from .ray_cluster import RayCluster

_ROOM = 30.0
"""Seconds that the cluster, and its autoscaler, have for a placement."""

_JOIN = 60.0
"""Seconds for an agent's process to start and to join."""

_NUMBERS = itertools.count(1)


class PlacementState(enum.Enum):
    """State of a placement: asked for, there, or refused."""

    PENDING = "pending"
    PLACED = "placed"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Invitation:
    """The orchestrator's address and keys, with which agents join. After `silence` seconds without
    a sign of life either end is taken for lost.
    """

    address: tuple[str, int]
    keys: Keys
    silence: float


@dataclass(slots=True, eq=False)
class RayPlacement:
    """Made by the thread of Ray's calls; others only look at it."""

    spec: ReplicaSpec
    state: PlacementState = PlacementState.PENDING
    error: str = ""
    """Why it has failed."""

    decided: float = 0.0
    """When it was placed, or failed (`time.monotonic`)."""

    nodes: dict[str, str] = field(default_factory=dict)
    """By the name of an agent: the host that it was started on."""

    _group: Any = None
    _actors: list[Any] = field(default_factory=list)

    def make(self, cluster: RayCluster, invitation: Invitation) -> None:
        """Have Ray reserve what the replica needs, and start an agent on each host."""
        try:
            self._place(cluster, invitation)
        except RankmeshError as error:
            self.end(cluster)
            self.error, self.state = str(error), PlacementState.FAILED
        else:
            self.state = PlacementState.PLACED
        self.decided = time.monotonic()

    def end(self, cluster: RayCluster) -> None:
        """Give everything back; Ray ends the agents, whose ranks end with them."""
        group, self._group = self._group, None
        self._actors.clear()
        self.nodes.clear()
        if group is not None:
            cluster.remove(group)

    def _place(self, cluster: RayCluster, invitation: Invitation) -> None:
        needs, size = needs_of(self.spec), len(self.spec.ranks)
        bundles = bundles_of(size, needs, cluster.hosts())
        number = next(_NUMBERS)
        self._group = cluster.place(bundles, needs, f"rankmesh-{number}", _ROOM)
        for index, node in enumerate(cluster.nodes_of(self._group)):
            name = f"ray-{number}.{index}"
            self.nodes[name] = node
            ranks = bundles.ranks[index]
            actor = _started(self._group, index, needs.bundle(ranks), invitation, name, ranks)
            self._actors.append(actor)
        for name, actor in zip(self.nodes, self._actors, strict=True):
            _await_joined(name, actor)


def needs_of(spec: ReplicaSpec) -> RankNeeds:
    """Needs of each rank of a replica: a core for each thread, and a GPU if it uses one."""
    return RankNeeds(spec.settings.threads or 1, 1 if spec.settings.device == "gpu" else 0)


def _started(
    group: Any,
    index: int,
    resources: dict[str, float],
    invitation: Invitation,
    name: str,
    ranks: int,
) -> Any:
    from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

    from .agent_actor import AgentActor

    keys = invitation.keys
    actor = ray_module().remote(
        num_cpus=resources.get("CPU", 0), num_gpus=resources.get("GPU", 0), max_restarts=0
    )(AgentActor)
    where = PlacementGroupSchedulingStrategy(group, index)
    options = {"scheduling_strategy": where, "name": None, "max_concurrency": 2}
    start = partial(
        actor.options(**options).remote,
        invitation.address,
        (keys.server, keys.client),
        name,
        ranks,
        invitation.silence,
    )
    return within(_JOIN, f"start the agent {name}", start)


def _await_joined(name: str, actor: Any) -> None:
    """Raise RankmeshError where an agent does not join."""
    ray = ray_module()
    call = partial(_joined, ray, actor)
    failure = within(_JOIN + 1, f"start the agent {name}", call)
    if failure:
        raise RankmeshError(f"the agent {name} has not joined: {failure}")


def _joined(ray: Any, actor: Any) -> str:
    try:
        return str(ray.get(actor.joined.remote(), timeout=_JOIN))
    except ray.exceptions.GetTimeoutError:
        return f"it did not within {_JOIN:g} s; can its host reach the orchestrator's address?"
    except ray.exceptions.RayError as error:
        return f"{str(error).strip().splitlines()[-1]} (Rankmesh must be installed on every host)"
