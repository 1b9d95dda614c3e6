"""Bundles of a replica: divide its ranks among hosts of a Ray cluster."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class RankNeeds:
    """Processor cores and GPUs that one rank needs of its host."""

    cores: int
    gpus: int

    def bundle(self, ranks: int) -> dict[str, float]:
        """The resources of so many ranks, as Ray names them."""
        resources = {"CPU": float(self.cores * ranks), "GPU": float(self.gpus * ranks)}
        return {name: amount for name, amount in resources.items() if amount}


@dataclass(frozen=True, slots=True)
class RayHost:
    """A living node of the cluster, and all its resources, whether they are in use or not."""

    node: str
    address: str
    cores: int
    gpus: int

    def room(self, needs: RankNeeds) -> int:
        """How many ranks it has room for, if nothing else runs there."""
        by_cores = self.cores // needs.cores
        return min(by_cores, self.gpus // needs.gpus) if needs.gpus else by_cores


@dataclass(frozen=True, slots=True)
class ReplicaBundles:
    """Bundles of one replica, by how many ranks each has; `strategy` is one of Ray's."""

    strategy: str
    ranks: tuple[int, ...]


def bundles_of(ranks: int, needs: RankNeeds, hosts: Sequence[RayHost]) -> ReplicaBundles:
    """One bundle where any host has room for the replica, else one for each of the fewest hosts.

    Where all hosts together have too little room it is one bundle, for which an autoscaler may
    start a host.
    """
    rooms = sorted((host.room(needs) for host in hosts), reverse=True)
    if not rooms or rooms[0] >= ranks or sum(rooms) < ranks:
        return ReplicaBundles("STRICT_PACK", (ranks,))
    shares: list[int] = []
    while ranks:
        shares.append(min(ranks, rooms[len(shares)]))
        ranks -= shares[-1]
    return ReplicaBundles("PACK", tuple(shares))
