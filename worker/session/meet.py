"""Rendezvous of a process: joins the other ranks of its job once, under any launcher."""

from __future__ import annotations

import os
import socket
from dataclasses import dataclass
from typing import TYPE_CHECKING

import msgspec

from ...comm.collectives.registry import BackendChoice, choose_collectives
from ...comm.errors import UsageError
from ...comm.job.environment import deadline_from_environment, inherited_fds
from ...comm.job.identity import LaunchIdentity, detect
from ...comm.job.rank import Rank
from ...comm.job_memory.arena import Arena
from ...comm.loggers import check_log_setting
from ...comm.rendezvous.rendezvous import ChannelRendezvous, Rendezvous, SingleRank
from ...comm.text import counted
from ...comm.transport.channel import Channel

if TYPE_CHECKING:  # what only one way to meet needs is imported where ranks meet so
    from ...compiler.model_file.config import Config
    from ...rank_tables.table import RankTable
    from ..api_types.context import Context
    from ..executors.settings import ExecutorSettings

_MPI = ("Open MPI", "MPICH")
_OWN = "rankmesh launch"


@dataclass(slots=True)
class _Joined:
    """The rendezvous of this process, for all its models; a forked child is another process."""

    pid: int
    rendezvous: Rendezvous


_joined: _Joined | None = None


def meet(context: Context, config: Config) -> Rendezvous:
    """The rendezvous of the job that this process belongs to, joined on first use.

    A launcher's variables count first. Without a launcher, a rank table in the configuration makes
    this process the rank `context.ascend.rank_id`; else it is alone. Raises UsageError where they
    contradict each other.
    """
    global _joined
    check_log_setting()
    identity = detect()
    table = _table(config)
    rank = _rank(identity, table, context)
    if rank.world_size == 1:
        return SingleRank(rank)
    if _joined is None:
        _joined = _Joined(os.getpid(), _join(rank, identity, table))
    if _joined.pid != os.getpid():
        raise UsageError(
            f"process {_joined.pid} is {_joined.rendezvous.rank} already, and this one was forked "
            f"from it: build models in one of the two."
        )
    mine = _joined.rendezvous.rank
    if (mine.rank, mine.world_size) != (rank.rank, rank.world_size):
        raise UsageError(
            f"this process is rank {mine.rank} of {mine.world_size} already, and a model asks for "
            f"rank {rank.rank} of {rank.world_size}: start one process per rank and job."
        )
    _joined.rendezvous.rank = rank  # the device may have been another model's
    return _joined.rendezvous


def use_collectives(
    rendezvous: Rendezvous, executor: ExecutorSettings, option: str | None = None
) -> None:
    """Have a rendezvous join the collectives that `collectives_for` chooses, on the executor's
    device.
    """
    device = executor.device_id
    rendezvous.rank = msgspec.structs.replace(rendezvous.rank, device=device)
    rendezvous.choice = collectives_for(rendezvous, executor.device, option)


def collectives_for(
    rendezvous: Rendezvous, device: str, option: str | None = None
) -> BackendChoice:
    """The collectives that `option` or RANKMESH_COLLECTIVES names, else those for memory of the
    host. Raises UsageError.
    """
    rank = rendezvous.rank
    launcher = (
        "" if isinstance(rendezvous, ChannelRendezvous) else detect().launcher
    )  # mpirun may be around our supervisor
    return choose_collectives(device, launcher, rank.local_size == rank.world_size, option)


def _join(rank: Rank, identity: LaunchIdentity, table: RankTable | None) -> Rendezvous:
    timeout = deadline_from_environment()
    fds = inherited_fds(os.environ) if identity.launcher == _OWN else None
    if fds is not None:
        channel, arena = Channel.inherited(fds[0]), Arena.attach(fds[1], rank.rank)
        if rank.local_size < rank.world_size:
            return _join_remotely(rank, identity, table, timeout, (channel, arena))
        return ChannelRendezvous(rank, channel, arena, timeout)
    if identity.launcher in _MPI:
        from ...comm.rendezvous.mpi_rendezvous import MpiRendezvous

        return MpiRendezvous(rank, timeout)
    if rank.local_size < rank.world_size:
        return _join_remotely(rank, identity, table, timeout)
    from hashlib import sha256

    from ...comm.rendezvous.local_rendezvous import meet_locally

    key = identity.job if table is None or identity.marks else sha256(table.to_json()).hexdigest()
    return meet_locally(rank, key, timeout)


def _join_remotely(
    rank: Rank,
    identity: LaunchIdentity,
    table: RankTable | None,
    timeout: float,
    inherited: tuple[Channel, Arena] | None = None,
) -> Rendezvous:
    from ...comm.rendezvous.address import address_from, address_of_table
    from ...comm.rendezvous.remote_rendezvous import meet_remotely
    from ...comm.transport.key_file import keys_from_environment

    place = (
        address_of_table(table, os.environ)
        if table and not identity.marks
        else address_from(identity, os.environ)
    )
    return meet_remotely(rank, place, keys_from_environment(os.environ), timeout, inherited)


def _rank(identity: LaunchIdentity, table: RankTable | None, context: Context) -> Rank:
    if identity.marks:
        return _launched_rank(identity, table, context)
    return identity.rank if table is None else _own_rank(table, context)


def _own_rank(table: RankTable, context: Context) -> Rank:
    """The rank that the user says this process is; the table must have it, on the user's device."""
    wanted = context.ascend.rank_id
    if wanted >= table.world_size:
        raise UsageError(
            f"ascend.rank_id is {wanted}, and the rank table has the ranks 0 to "
            f"{table.world_size - 1}."
        )
    device = _check_device(table, wanted, context)
    local = table.server_of(wanted).ranks
    return Rank(
        wanted, table.world_size, local.index(wanted), len(local), socket.gethostname(), device
    )


def _launched_rank(identity: LaunchIdentity, table: RankTable | None, context: Context) -> Rank:
    """The launcher's rank; what the user has set must not contradict it."""
    rank, ascend = identity.rank, context.ascend
    if ascend.rank_id_given and ascend.rank_id != rank.rank:
        raise UsageError(
            f"ascend.rank_id is {ascend.rank_id}, and {identity.launcher} says that this is rank "
            f"{rank.rank}. Do not set it under a launcher, or start the ranks by hand."
        )
    if table is None:
        return rank
    if table.world_size != rank.world_size:
        raise UsageError(
            f"the rank table has {counted(table.world_size, 'rank')}, and {identity.launcher} "
            f"started {rank.world_size}. Give it as many, or correct the table."
        )
    _check_device(table, rank.rank, context)
    return rank


def _check_device(table: RankTable, rank: int, context: Context) -> int:
    """The device of a rank by the table; what the user has set must not contradict it."""
    device, ascend = table.device_of(rank).device_id, context.ascend
    if ascend.device_id_given and ascend.device_id != device:
        raise UsageError(
            f"ascend.device_id is {ascend.device_id}, and the rank table gives rank {rank} the "
            f"device {device}. Correct one of them."
        )
    return device


def _table(config: Config) -> RankTable | None:
    path = config.rank_table_file
    if not path:
        return None
    from ...rank_tables.fault import RankTableFault
    from ...rank_tables.table import RankTable

    try:
        return RankTable.read(path)
    except RankTableFault as fault:
        raise UsageError(str(fault)) from fault
