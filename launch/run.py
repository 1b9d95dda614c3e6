"""`rankmesh run`: start a model's ranks on this host, run it, compare, print."""

from __future__ import annotations

import socket
from dataclasses import replace

import msgspec

from ..comm.collectives.choose import choose_for_host_memory
from ..comm.counted import counted
from ..comm.deadline import deadline_from_environment
from ..comm.decoding import decode_payloads
from ..comm.errors import UsageError
from ..comm.identity import detect
from ..comm.messages import Start
from ..comm.placement import RankSpec, local_ranks, table_ranks
from ..comm.processes.rank_process import Command, python
from ..comm.shard import Shards, find_shards
from . import host
from .config_file import read_config
from .device import choose_device, device_ids
from .job import RankReport, RunJob
from .loading import Loading
from .meeting_variables import meeting_variables
from .notice import notice, notice_line
from .rank_table import read_rank_table
from .report import prepare
from .run_files import check_files
from .run_options import RunOptions
from .supervise import Supervisor


def run(options: RunOptions, told: dict[int, str] | None = None) -> tuple[list[RankReport], bool]:
    """Run the model on all ranks of this host, and of a rank table's other hosts, where the same command is given.

    Returns the reports in rank order, and whether rank 0 is here, where they are printed. Raises RankmeshError; then
    `told` has what ranks of this host said, by rank.

    In a process that mpirun, torchrun, srun or `rankmesh launch` started, this is one of their ranks.
    """
    shards = find_shards(options.model)
    if options.rank_table is None:
        options = replace(options, rank_table=read_config(options.config).rank_table_file or None)
    identity = detect()
    if identity.rank.world_size > 1:
        from .run_inside import run_inside

        return run_inside(options, shards, identity), identity.rank.rank == 0
    specs, device = _specs(options, shards)
    shards.require(specs[0].rank.world_size)
    check_files(options, shards, [spec.rank for spec in specs])
    timeout = deadline_from_environment()
    spin = sum(spec.threads for spec in specs) <= len(host.cores())
    variables = meeting_variables(specs[0].rank, options.rank_table)
    commands = [_command(spec, options.job(shards, device, spec.threads, spin), timeout, variables) for spec in specs]
    supervisor = Supervisor([spec.rank for spec in specs], commands, timeout, _log)
    try:
        with supervisor, Loading(supervisor.stages) as loading:
            if options.expect is not None:
                prepare()
            reports = supervisor.run(loading)
    finally:
        if told is not None:
            told.update(supervisor.errors)
        if options.verbose:
            for rank, text in supervisor.followers.items():
                _log(rank, 2, text)
    if variables:  # each rank has the reports of all
        (reports,) = decode_payloads(reports[:1], list[bytes])
    return decode_payloads(reports, RankReport), specs[0].rank.rank == 0


def _specs(options: RunOptions, shards: Shards) -> tuple[list[RankSpec], str]:
    name = socket.gethostname()
    if options.rank_table is not None:
        specs = table_ranks(read_rank_table(options.rank_table), host.names(), name, host.cores())
        size = specs[0].rank.world_size
        if options.ranks not in (None, size):
            raise UsageError(f"--ranks {options.ranks} contradicts {options.rank_table}, which has "
                             f"{counted(size, 'rank')}.")
    else:
        world_size = _world_size(options.ranks, shards)
        specs = local_ranks(world_size, name, [0] * world_size, host.cores())
    device, reason = choose_device(options.device, len(specs), options.oversubscribe)
    if options.device is None or options.verbose:
        notice(f"{counted(len(specs), 'rank')}, {reason}")
    choice = choose_for_host_memory(device, "", len(specs) == specs[0].rank.world_size, options.collectives)
    if options.verbose:
        notice(f"collectives {choice.name} ({choice.reason}); {counted(specs[0].threads, 'thread')} per rank, "
               f"{'pinned to its cores' if specs[0].cores else 'not pinned: more ranks than cores'}")
    if options.rank_table is None:
        ids = device_ids(device, len(specs))
        specs = [spec.on_device(device_id) for spec, device_id in zip(specs, ids, strict=True)]
    return specs, device


def _world_size(ranks: int | None, shards: Shards) -> int:
    if ranks is not None and ranks < 1:
        raise UsageError(f"--ranks {ranks}: expected 1 or more.")
    return ranks or shards.count


def _command(spec: RankSpec, job: RunJob, timeout: float, variables: dict[str, str]) -> Command:
    start = Start(spec.rank, msgspec.msgpack.encode(job), timeout)
    arguments = python("rankmesh.launch.rank_main", f"rank={spec.rank.rank}")
    return Command(arguments, variables, spec.cores, start)


def _log(rank: int, stream: int, line: str) -> None:
    notice_line(rank, line)
