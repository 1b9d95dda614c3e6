"""Ray placement: the host that Ray has given one replica, and the agent there."""

from __future__ import annotations

import enum
import itertools
import time
from dataclasses import dataclass
from functools import partial
from typing import Any

from ...comm.errors import RankmeshError
from ...comm.transport.key_file import Keys
from ..replica.replica_spec import ReplicaSpec
from .rank_needs import RankNeeds
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
    """Made by a thread of Ray's calls; others only look at it."""

    spec: ReplicaSpec
    state: PlacementState = PlacementState.PENDING
    error: str = ""
    """Why it has failed."""

    decided: float = 0.0
    """When it was placed, or failed (`time.monotonic`)."""

    agent: str = ""
    """The name of the agent; empty where there is none."""

    node: str = ""
    """The host that the agent was started on."""

    _group: Any = None
    _actor: Any = None

    def make(self, cluster: RayCluster, invitation: Invitation) -> None:
        """Have Ray reserve what the replica needs on one host, and start an agent there."""
        try:
            self._place(cluster, invitation)
        except RankmeshError as error:
            self.end(cluster)
            self.error, state = str(error), PlacementState.FAILED
        else:
            state = PlacementState.PLACED
        self.decided = time.monotonic()
        self.state = state  # last, as others look at it

    def end(self, cluster: RayCluster) -> None:
        """Give everything back; Ray ends the agent, whose ranks end with it."""
        group, self._group = self._group, None
        self._actor = None
        self.agent = ""
        if group is not None:
            cluster.remove(group)

    def _place(self, cluster: RayCluster, invitation: Invitation) -> None:
        ranks = len(self.spec.ranks)
        resources = RankNeeds.of(self.spec).bundle(ranks)
        name = f"ray-{next(_NUMBERS)}"
        self._group = cluster.place(resources, f"rankmesh-{name}", _ROOM)
        self.node = cluster.node_of(self._group)
        self.agent = name
        self._actor = _started(self._group, resources, invitation, name, ranks)
        failure = within(_JOIN + 1, f"start the agent {name}", partial(_joined, self._actor))
        if failure:
            raise RankmeshError(f"the agent {name} has not joined: {failure}")


def _started(
    group: Any, resources: dict[str, float], invitation: Invitation, name: str, ranks: int
) -> Any:
    from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

    from .agent_actor import AgentActor

    keys = invitation.keys
    actor = ray_module().remote(
        num_cpus=resources.get("CPU", 0),
        num_gpus=resources.get("GPU", 0),
        max_restarts=0,
        scheduling_strategy=PlacementGroupSchedulingStrategy(group, 0),
    )(AgentActor)
    start = partial(
        actor.remote,
        invitation.address,
        (keys.server, keys.client),
        name,
        ranks,
        invitation.silence,
    )
    return within(_JOIN, f"start the agent {name}", start)


def _joined(actor: Any) -> str:
    """An empty text once an agent has joined, or the reason why it has not."""
    ray = ray_module()
    try:
        return str(ray.get(actor.joined.remote(), timeout=_JOIN))
    except ray.exceptions.GetTimeoutError:
        return f"it did not within {_JOIN:g} s; can its host reach the orchestrator's address?"
    except ray.exceptions.RayError as error:
        return f"{str(error).strip().splitlines()[-1]} (Rankmesh must be installed on every host)"
