"""What all weights of a group of ranks are at one time, beside those of the model's files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ..comm.serving.tensor_arena import Region
from ..comm.serving.weights import Stage, Weight


@dataclass(frozen=True, slots=True, eq=False)
class Held:
    """One updated weight, and what keeps its bytes in shared memory: once for all ranks and replicas."""

    weight: Weight
    region: Region


@dataclass(frozen=True, slots=True, eq=False)
class Edition:
    """Updated weights of each rank, by its names for them. `number` is its own; `version` is how many updates count."""

    number: int
    version: int
    ranks: tuple[Mapping[str, Held], ...]

    def stage(self, rank: int) -> Stage:
        """What a rank is told."""
        return Stage(self.number, self.version, [held.weight for held in self.ranks[rank].values()])

    def first(self, rank: int) -> Stage | None:
        """What a rank is to start with; None for its files."""
        return self.stage(rank) if any(self.ranks) else None

    def updated(self, number: int, new: Sequence[Mapping[str, Held]]) -> Edition:
        """The next one: with other weights, or more of them, by rank."""
        ranks = tuple({**mine, **others} for mine, others in zip(self.ranks, new, strict=True))
        return Edition(number, self.version + 1, ranks)


def exported(world_size: int) -> Edition:
    """All weights as the model's files have them."""
    return Edition(0, 0, ({},) * world_size)
