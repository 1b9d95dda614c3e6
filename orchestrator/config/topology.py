"""Topology: plans the replicas, and the place of each rank."""

from __future__ import annotations

import os
import socket
from collections.abc import Sequence
from dataclasses import dataclass, replace

import msgspec

from ...comm.errors import ModelError, UsageError
from ...comm.host.resources import gpu_count
from ...comm.job.names import require_utf8_path
from ...comm.job.placement import RankSpec, core_shares
from ...comm.job.rank import Rank
from ...comm.job.shard import Shards, find_shards
from ...comm.limits import require_at_most, require_ranks
from ...comm.serving.decoder_files import decoder_config
from ...comm.text import counted
from ...rank_tables.check import MAX_RANKS
from ...rank_tables.fault import RankTableFault
from ...rank_tables.table import RankTable
from .python_settings import PythonSettings
from .settings import ModelSettings

_FILES = 5
"""Descriptors that an orchestrator has for the memory and the orders of a rank."""


@dataclass(frozen=True, slots=True)
class ModelFiles:
    """One model: its settings, the files and the rank table they name, the devices to choose from
    if it needs any.
    """

    settings: ModelSettings
    shards: Shards
    table: RankTable | None = None
    devices: tuple[int, ...] = ()

    @property
    def who(self) -> str:
        """The model, as errors name it."""
        return f"model '{self.settings.label}'"

    @property
    def pinned(self) -> bool:
        """Whether its ranks have cores of their own: functions in Python run on any."""
        return not isinstance(self.settings, PythonSettings)


def files_of(model: ModelSettings) -> ModelFiles:
    """The files and devices that a model's settings mean. Raises UsageError, ModelError."""
    if isinstance(model, PythonSettings):
        return ModelFiles(model, _source_of(model))
    require_utf8_path(model.path)
    table = None
    if model.rank_table is not None:
        try:
            table = RankTable.read(model.rank_table)
        except RankTableFault as fault:
            raise UsageError(str(fault)) from fault
    devices = tuple(range(gpu_count())) if model.device == "gpu" else ()
    decoder = decoder_config(model.path)
    shards = find_shards(model.path) if decoder is None else Shards(decoder, 1)
    return ModelFiles(model, shards, table, devices)


def _source_of(model: PythonSettings) -> Shards:
    """The source of a function, which is one for all ranks. Raises ModelError."""
    if model.source.endswith(".py") and not os.path.isfile(model.source):
        raise ModelError(
            f"{model.source}: no such file, for the function '{model.function}' of the model "
            f"'{model.label}'."
        )
    return Shards(model.source, 1)


class ReplicaPlan(msgspec.Struct, frozen=True):
    """Ranks that together run the model `label`, once more for every replica; they are numbered
    from 0 in the replica. `version` is that of the settings.
    """

    label: str
    replica: int
    ranks: tuple[RankSpec, ...]
    version: int | None = None

    def runs(self, settings: ModelSettings) -> bool:
        """Whether it is a replica of the model of these settings."""
        return (self.label, self.version) == (settings.label, settings.version)


def plan_beside(
    models: Sequence[ModelFiles], living: Sequence[RankSpec], elsewhere: bool = False
) -> tuple[list[ReplicaPlan], bool, bool]:
    """The replicas of further models beside ranks that are `living`; whether their ranks may look
    for orders before they sleep, and whether a core is left for callers.

    They share the cores that no rank is pinned to, where there is one for each rank; else all.
    Ranks that run `elsewhere` get their cores and devices there.
    """
    if elsewhere:
        return plan_replicas([replace(found, devices=()) for found in models], "", ()), False, True
    require_ranks(sum(ranks * replicas for ranks, replicas in map(_sizes, models)), _FILES)
    host = socket.gethostname()
    cores = sorted(os.sched_getaffinity(0))
    plans = plan_replicas(models, host, cores)
    taken = {core for spec in living for core in spec.cores}
    free = [core for core in cores if core not in taken]
    if taken and len(free) >= sum(len(plan.ranks) for plan in plans):
        plans = plan_replicas(models, host, free)
    specs = [*living, *(spec for plan in plans for spec in plan.ranks)]
    spins = sum(spec.threads for spec in specs) <= len(cores)
    return plans, spins, len(specs) < len(cores)


def plan_replicas(
    models: Sequence[ModelFiles], host: str, cores: Sequence[int]
) -> list[ReplicaPlan]:
    """All replicas on `host`, model after model; UsageError where settings are at odds.

    All ranks share the cores evenly. A rank that is to have more threads than its share is not
    pinned. An empty `host` is not known yet.
    """
    for found in models if host else ():
        _check_one_host(found)
    sizes = [_sizes(found) for found in models]
    require_at_most("ranks in all", sum(ranks * replicas for ranks, replicas in sizes), MAX_RANKS)
    pinned = sum(
        ranks * replicas
        for found, (ranks, replicas) in zip(models, sizes, strict=True)
        if found.pinned
    )
    shares = iter(core_shares(cores, pinned) if pinned else ())
    plans = []
    for found, (ranks, replicas) in zip(models, sizes, strict=True):
        devices = _devices(found, ranks, replicas)
        for replica in range(replicas):
            specs = tuple(
                _spec(
                    found.settings.threads,
                    next(shares) if found.pinned else (),
                    Rank(r, ranks, r, ranks, host, device),
                )
                for r, device in enumerate(devices[replica * ranks : (replica + 1) * ranks])
            )
            settings = found.settings
            plans.append(ReplicaPlan(settings.label, replica, specs, settings.version))
    return plans


def _spec(threads: int | None, share: tuple[int, ...], rank: Rank) -> RankSpec:
    wanted = threads or max(1, len(share))
    return RankSpec(rank, share if wanted <= len(share) else (), wanted)


def _sizes(found: ModelFiles) -> tuple[int, int]:
    """How many ranks a replica has, and how many replicas there are."""
    ranks = _ranks(found)
    replicas = found.settings.replicas
    for name, places in _places(found):
        replicas = replicas or max(1, places // ranks)
        if places != ranks * replicas:
            raise UsageError(
                f"{found.who}: {name} has {counted(places, 'place')}, and {replicas} x "
                f"{counted(ranks, 'rank')} (replicas x ranks of each) are to run: make them "
                "equal."
            )
    return ranks, replicas or 1


def _ranks(found: ModelFiles) -> int:
    if found.settings.ranks:
        return found.settings.ranks
    if found.shards.numbered:
        return found.shards.count
    if (
        found.table is not None
    ):  # one file for all ranks: as `rankmesh run` has it, the table's ranks are one replica
        return max(1, found.table.world_size // (found.settings.replicas or 1))
    return 1


def _places(found: ModelFiles) -> list[tuple[str, int]]:
    settings, places = found.settings, list[tuple[str, int]]()
    if found.table is not None:
        places.append((f"the rank table {settings.rank_table}", found.table.world_size))
    if settings.devices is not None:
        places.append((f"devices {list(settings.devices)}", len(settings.devices)))
    return places


def _check_one_host(found: ModelFiles) -> None:
    table = found.table
    if table is not None and len(table.servers) > 1:
        listed = "; ".join(
            f"{server.server_id}: ranks {list(server.ranks)}" for server in table.servers
        )
        raise UsageError(
            f"{found.who}: the rank table {found.settings.rank_table} has several hosts "
            f"({listed}), and an orchestrator's ranks are on its own unless launcher is 'agents'. "
            "Start an agent on each host, or give each host a table and an orchestrator."
        )


def _devices(found: ModelFiles, ranks: int, replicas: int) -> list[int]:
    """The device of every rank, replica after replica."""
    total, listed = ranks * replicas, found.settings.devices
    if found.table is not None:
        devices = [found.table.device_of(rank).device_id for rank in range(total)]
        if listed is not None and list(listed) != devices:
            raise UsageError(
                f"{found.who}: devices {list(listed)} contradict the rank table "
                f"{found.settings.rank_table}, which has {devices}. Leave one of them out."
            )
        return devices
    if listed is not None:
        return list(listed)
    if not found.devices:
        return list(range(total))
    if len(found.devices) < ranks:
        raise UsageError(
            f"{found.who}: a replica of {counted(ranks, 'rank')} needs "
            f"{counted(ranks, 'device')}, and "
            f"this host has {len(found.devices)}. Use device: cpu, or list the devices to share "
            "them."
        )
    return [found.devices[place % len(found.devices)] for place in range(total)]
