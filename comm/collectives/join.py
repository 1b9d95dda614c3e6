"""The collectives of a chosen name, for ranks that have met."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ..arena import Arena
from ..rank import Rank
from .base import Collectives
from .choose import SHARED_MEMORY
from .register import Register, Roll
from .shared_memory import SharedMemoryCollectives


def join_collectives(
    name: str, rank: Rank, exchange: Callable[[bytes], list[bytes]], arena: Arena, groups: Sequence[tuple[int, ...]],
    pairs: Sequence[tuple[int, int]], timeout: float, local: frozenset[int] | None = None,
    inside: set[Roll] | None = None, address: str = "",
) -> Collectives:
    """Join the collectives `name` (any but mpi) of the given groups and pairs, the same on all ranks.

    `exchange` is a meeting's; `local` are the ranks that share `arena` (None: all); `inside` is kept for whoever
    watches the rank; `address` is rank 0's, as other hosts reach it (by default that of its default route).
    """
    if name == SHARED_MEMORY:
        return SharedMemoryCollectives.join(rank, arena, groups, pairs, timeout)
    from .torch_distributed import TorchCollectives  # torch takes a second

    everybody = frozenset(range(rank.world_size))
    register = Register(arena, rank, groups, pairs, everybody if local is None else local,
                        set() if inside is None else inside)
    return TorchCollectives.join(name, rank, exchange, register, arena, groups, timeout, address)
