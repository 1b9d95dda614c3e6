"""Rank: the identity of one process of a job, made once at the edge and passed on."""

from __future__ import annotations

import msgspec


class Rank(msgspec.Struct, frozen=True):
    """One rank of a job.

    `local_rank` and `local_size` count the ranks of this host; `device` is the device id on it.
    """

    rank: int
    world_size: int
    local_rank: int
    local_size: int
    host: str
    device: int

    def __post_init__(self) -> None:
        """Raise ValueError for an identity that cannot exist."""
        if not 0 <= self.rank < self.world_size:
            raise ValueError(f"rank {self.rank} is outside a world of {self.world_size} ranks")
        if not 0 <= self.local_rank < self.local_size <= self.world_size:
            raise ValueError(
                f"local rank {self.local_rank} of {self.local_size} does not fit a world of "
                f"{self.world_size}"
            )
        if self.device < 0:
            raise ValueError(f"device {self.device} is negative")

    def __str__(self) -> str:
        return f"rank {self.rank} of {self.world_size} on {self.host}"
