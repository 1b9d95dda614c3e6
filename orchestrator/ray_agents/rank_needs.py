"""Rank needs: the resources of a Ray host that each rank of a replica takes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ..replica.replica_spec import ReplicaSpec


@dataclass(frozen=True, slots=True)
class RankNeeds:
    """Processor cores and GPUs that one rank needs of its host."""

    cores: int
    gpus: int

    @classmethod
    def of(cls, spec: ReplicaSpec) -> RankNeeds:
        """Needs of each rank of a replica: a core for each thread, and a GPU if it uses one."""
        settings = spec.settings
        return cls(settings.threads or 1, 1 if settings.device == "gpu" else 0)

    def bundle(self, ranks: int) -> dict[str, float]:
        """The resources of so many ranks, as Ray names them."""
        resources = {"CPU": float(self.cores * ranks), "GPU": float(self.gpus * ranks)}
        return {name: amount for name, amount in resources.items() if amount}

    def ranks_of(self, resources: Mapping[str, float]) -> int:
        """How many ranks a host with these resources can have."""
        needed = self.bundle(1)
        return min(int(resources.get(name, 0) / amount) for name, amount in needed.items())
