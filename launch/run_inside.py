"""`rankmesh run` in a process that another launcher started: it is one of that launcher's ranks."""

from __future__ import annotations

import os

import msgspec

from ..comm.context import Context
from ..comm.counted import counted
from ..comm.decoding import decode_payloads
from ..comm.errors import UsageError
from ..comm.identity import Identity
from ..comm.shard import Shards
from ..worker.cores import agree_on_cores
from ..worker.meet import meet, use_collectives
from .config_file import read_config
from .device import choose_device, device_ids
from .job import RankReport
from .notice import notice
from .run_files import check_files
from .run_options import RunOptions
from .run_rank import run_rank


def run_inside(options: RunOptions, shards: Shards, identity: Identity) -> list[RankReport]:
    """Run this process's rank; every rank gets all reports, in rank order. Raises the errors of comm/errors.py."""
    size = identity.rank.world_size
    if options.ranks not in (None, size):
        raise UsageError(f"--ranks {options.ranks} contradicts {identity.launcher}, which started "
                         f"{counted(size, 'rank')}. Leave --ranks out, or start {options.ranks}.")
    shards.require(size)
    check_files(options, shards, [identity.rank])
    meeting = meet(Context(), read_config(options.config))
    cores = agree_on_cores(meeting)
    if cores:
        os.sched_setaffinity(0, cores)
    rank = identity.rank
    device, reason = choose_device(options.device, rank.local_size, options.oversubscribe)
    if options.verbose and rank.rank == 0:
        choice = use_collectives(meeting, device, options.collectives)
        notice(f"{counted(size, 'rank')} by {identity.launcher}, {reason}; collectives {choice.name} "
               f"({choice.reason}); {counted(max(1, len(cores)), 'thread')} per rank")
    device_id = device_ids(device, rank.local_size)[rank.local_rank]
    meeting.rank = msgspec.structs.replace(meeting.rank, device=device_id)
    threads = max(1, len(cores))
    report = run_rank(options.job(shards, device, threads, spin=bool(cores)), meeting)
    return decode_payloads(meeting.exchange(msgspec.msgpack.encode(report)), RankReport)
