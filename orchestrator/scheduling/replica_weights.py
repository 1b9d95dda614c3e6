"""Weights of one replica: those of each rank that replace the weights of the model's files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ...comm.request_memory.owned_arena import Region
from ...comm.serving.weights import StageWeights, WeightTensor


@dataclass(frozen=True, slots=True, eq=False)
class PlacedWeight:
    """One updated weight, and the region of shared memory that has its bytes: once for all ranks
    and replicas.
    """

    weight: WeightTensor
    region: Region


@dataclass(frozen=True, slots=True, eq=False)
class ReplicaWeights:
    """Updated weights of each rank, by the rank's names for them.

    `generation` is the number that orders name; `version` is how many updates are in effect.
    """

    generation: int
    version: int
    ranks: tuple[Mapping[str, PlacedWeight], ...]

    def staged(self, rank: int) -> StageWeights:
        """The request that a rank makes these weights ready."""
        weights = [placed.weight for placed in self.ranks[rank].values()]
        return StageWeights(self.generation, self.version, weights)

    def regions(self, rank: int) -> list[Region]:
        """The memory of the weights of a rank, in the order of `staged`."""
        return [placed.region for placed in self.ranks[rank].values()]

    def at_start(self, rank: int) -> StageWeights | None:
        """The weights that a rank starts with; None for those of its files."""
        return self.staged(rank) if any(self.ranks) else None

    def updated(self, generation: int, new: Sequence[Mapping[str, PlacedWeight]]) -> ReplicaWeights:
        """The next version: other weights, or more of them, by rank."""
        ranks = tuple({**old, **others} for old, others in zip(self.ranks, new, strict=True))
        return ReplicaWeights(generation, self.version + 1, ranks)


def exported_weights(world_size: int) -> ReplicaWeights:
    """The weights of the model's files, for `world_size` ranks."""
    return ReplicaWeights(0, 0, ({},) * world_size)
