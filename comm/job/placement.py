"""Placement: one RankSpec for each rank, from a number of ranks or a rank table.

Between the rank table (or a plain number of ranks) and the processes: the launcher and the
orchestrator plan with these functions, and start one process for each RankSpec.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from ...rank_tables.server import Server
from ...rank_tables.table import RankTable
from ..errors import UsageError
from .rank import Rank


class RankSpec(msgspec.Struct, frozen=True):
    """One rank to be started here: the cores it is pinned to (none: not pinned), its threads."""

    rank: Rank
    cores: tuple[int, ...]
    threads: int

    def on_device(self, device: int) -> RankSpec:
        """The same rank on another device."""
        return RankSpec(msgspec.structs.replace(self.rank, device=device), self.cores, self.threads)


def local_ranks(
    world_size: int, host: str, devices: Sequence[int], cores: Sequence[int]
) -> list[RankSpec]:
    """All ranks on this host; rank r gets devices[r] and its share of the cores."""
    shares = core_shares(cores, world_size)
    return [
        RankSpec(
            Rank(r, world_size, r, world_size, host, devices[r]), shares[r], max(1, len(shares[r]))
        )
        for r in range(world_size)
    ]


def core_shares(cores: Sequence[int], ranks: int) -> list[tuple[int, ...]]:
    """Neighbouring cores for each rank, in equal shares.

    If there are fewer cores than ranks, no rank gets any.
    """
    if ranks > len(cores):
        return [()] * ranks
    each = len(cores) // ranks
    return [tuple(cores[r * each : (r + 1) * each]) for r in range(ranks)]


def table_ranks(
    table: RankTable, names: Sequence[str], host: str, cores: Sequence[int]
) -> list[RankSpec]:
    """The ranks that a rank table puts on this host, which is known by `names`.

    `names` are addresses and host names. A table of one server is this host's, whatever its
    address. Raises UsageError if this host is not in a table of several.
    """
    return server_ranks(_own_server(table, names), table.world_size, host, cores)


def server_ranks(
    server: Server, world_size: int, host: str, cores: Sequence[int]
) -> list[RankSpec]:
    """The ranks of one server of a rank table on `host`, each with its share of the cores."""
    by_rank = {device.rank: device.device_id for device in server.devices}
    size, shares = len(server.ranks), core_shares(cores, len(server.ranks))
    return [
        RankSpec(Rank(r, world_size, i, size, host, by_rank[r]), shares[i], max(1, len(shares[i])))
        for i, r in enumerate(server.ranks)
    ]


def _own_server(table: RankTable, names: Sequence[str]) -> Server:
    if len(table.servers) == 1:
        return table.servers[0]
    for server in table.servers:
        if server.server_id in names or (server.host_ip and server.host_ip in names):
            return server
    listed = ", ".join(server.server_id for server in table.servers)
    raise UsageError(
        f"no server of the rank table is this host: it lists {listed}, and this host is "
        f"{', '.join(names)}. Run it on one of those, or correct server_id or host_ip."
    )
