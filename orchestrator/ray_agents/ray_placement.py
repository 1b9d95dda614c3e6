"""Ray placement: the hosts that Ray has given one replica, mostly one, and the agents there."""

from __future__ import annotations

import enum
import itertools
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

from ...comm.errors import RankmeshError
from ...comm.transport.key_file import Keys
from ..agents.rank_spread import AgentRoom, spread
from ..replica.replica_spec import ReplicaSpec
from .rank_needs import RankNeeds
from .ray_calls import ray_module, within
from .ray_cluster import ClusterHost, RayCluster

_ROOM = 30.0
"""Seconds that the cluster, and its autoscaler, have for a placement."""

_SOON = 2.0
"""Seconds for one host to get room, before a replica spans several that have it."""

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
    a sign of life either end is taken for lost. `opens` tells whether ranks at an address may
    exchange tensors with other hosts in clear.
    """

    address: tuple[str, int]
    keys: Keys
    silence: float
    opens: Callable[[str], bool]


@dataclass(slots=True, eq=False)
class RayPlacement:
    """Made by a thread of Ray's calls; others only look at it."""

    spec: ReplicaSpec
    state: PlacementState = PlacementState.PENDING
    error: str = ""
    """Why it has failed."""

    decided: float = 0.0
    """When it was placed, or failed (`time.monotonic`)."""

    agents: dict[str, str] = field(default_factory=dict)
    """By the name of an agent: the host that it was started on."""

    _group: Any = None
    _actors: list[Any] = field(default_factory=list)

    def make(self, cluster: RayCluster, invitation: Invitation) -> None:
        """Have Ray reserve what the replica needs, and start an agent on each of its hosts."""
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
        """Give everything back; Ray ends the agents, whose ranks end with them."""
        group, self._group = self._group, None
        self._actors = []
        self.agents = {}
        if group is not None:
            cluster.remove(group)

    def _place(self, cluster: RayCluster, invitation: Invitation) -> None:
        needs = RankNeeds.of(self.spec)
        shares = self._reserve(cluster, needs, invitation.opens)
        names = [f"ray-{next(_NUMBERS)}" for _ in shares]
        bundles = [needs.bundle(ranks) for ranks in shares]
        self.agents = dict(zip(names, cluster.nodes_of(self._group), strict=True))
        for index, (name, ranks) in enumerate(zip(names, shares, strict=True)):
            bundle = _Bundle(self._group, index, bundles[index])
            self._actors.append(_started(bundle, invitation, name, ranks))
        for name, actor in zip(names, self._actors, strict=True):
            failure = within(_JOIN + 1, f"start the agent {name}", partial(_joined, actor))
            if failure:
                raise RankmeshError(f"the agent {name} has not joined: {failure}")

    def _reserve(
        self, cluster: RayCluster, needs: RankNeeds, opens: Callable[[str], bool]
    ) -> list[int]:
        """Have Ray reserve room; how many ranks each bundle has. Raises RankmeshError."""

        def reserved(shares: list[int], seconds: float) -> list[int]:
            name = f"rankmesh-{self.spec.index}-{next(_NUMBERS)}"
            self._group = cluster.place(list(map(needs.bundle, shares)), name, seconds)
            return shares

        *first, last = placements(len(self.spec.ranks), needs, cluster.hosts(), opens)
        for one in first:
            with suppress(RankmeshError):  # the last one says what the cluster lacks
                return reserved(*one)
        return reserved(*last)


def placements(
    ranks: int, needs: RankNeeds, hosts: Sequence[ClusterHost], opens: Callable[[str], bool]
) -> list[tuple[list[int], float]]:
    """The ranks of each bundle to ask Ray for, and how many seconds it gets before the next try.

    All are on one host that is free or soon may be. Else they span hosts with free room, if these
    are open; else they wait for what would be enough if all hosts were free. `opens` tells whether
    ranks at an address may exchange tensors with other hosts in clear.
    """

    def shares(resources: Sequence[dict[str, float]]) -> list[int]:
        rooms = [
            AgentRoom(needs.ranks_of(offered), host.address, opens(host.address))
            for host, offered in zip(hosts, resources, strict=True)
        ]
        return [count for _, count in spread(ranks, rooms)]

    of_all = shares([one.resources for one in hosts]) or [ranks]
    of_free = shares([one.free for one in hosts])
    if len(of_all) == 1 < len(of_free):
        return [(of_all, _SOON), (of_free, _ROOM)]
    return [(of_free or of_all, _ROOM)]


class _Bundle(NamedTuple):
    """A bundle of a placement group, with its resources."""

    group: Any
    place: int
    resources: dict[str, float]


def _started(bundle: _Bundle, invitation: Invitation, name: str, ranks: int) -> Any:
    from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

    from .agent_actor import AgentActor

    keys = invitation.keys
    actor = ray_module().remote(
        num_cpus=bundle.resources.get("CPU", 0),
        num_gpus=bundle.resources.get("GPU", 0),
        max_restarts=0,
        scheduling_strategy=PlacementGroupSchedulingStrategy(bundle.group, bundle.place),
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
