"""`rankmesh run`: start a model's ranks on this host, run it, compare, print."""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from ..comm.deadline import deadline_from_environment
from ..comm.errors import UsageError
from ..comm.messages import Start
from ..worker.shard import Shards, find_shards
from . import host
from .device import choose_device, device_ids
from .job import RankReport, RunJob
from .plan import RankSpec, local_ranks, table_ranks
from .rank_process import Command, python
from .rank_table import read_rank_table
from .supervise import Supervisor

_LAUNCHERS = {"OMPI_COMM_WORLD_SIZE": "mpirun (Open MPI)", "PMI_SIZE": "mpirun (MPICH)", "SLURM_STEP_NUM_TASKS": "srun",
              "TORCHELASTIC_RUN_ID": "torchrun"}


@dataclass(frozen=True, slots=True)
class RunOptions:
    """What the user asked for; None where nothing was said."""

    model: str
    ranks: int | None = None
    rank_table: str | None = None
    inputs: str | None = None
    expect: str | None = None
    rtol: float | None = None
    atol: float | None = None
    save: str | None = None
    repeat: int = 0
    device: str | None = None
    collectives: str = "shared_memory"
    oversubscribe: bool = False
    verbose: bool = False


def run(options: RunOptions) -> list[RankReport]:
    """Run the model on all ranks of this host; the reports are in rank order. Raises RankmeshError."""
    _refuse_foreign_launcher()
    if options.collectives != "shared_memory":
        raise UsageError(f"--collectives {options.collectives}: only shared_memory is supported so far.")
    shards = find_shards(options.model)
    specs, device = _specs(options, shards)
    shards.require(len(specs))
    timeout = deadline_from_environment()
    commands = [_command(spec, _job(options, shards, spec, device, len(specs)), timeout) for spec in specs]
    supervisor = Supervisor([spec.rank for spec in specs], commands, timeout, _log)
    try:
        with supervisor:
            reports = supervisor.run()
    finally:
        if options.verbose:
            for rank, text in supervisor.followers.items():
                _log(rank, 2, text)
    return [msgspec.msgpack.decode(report, type=RankReport) for report in reports]


def _refuse_foreign_launcher() -> None:
    """Until a process started by another launcher becomes one of its ranks, say so."""
    for variable, launcher in _LAUNCHERS.items():
        if variable in os.environ:
            raise UsageError(f"this process was started by {launcher} ({variable}={os.environ[variable]}), which is "
                             f"not supported yet: start `rankmesh run --ranks N` by itself, it starts its ranks.")


def _specs(options: RunOptions, shards: Shards) -> tuple[list[RankSpec], str]:
    name = socket.gethostname()
    if options.rank_table is not None:
        specs = table_ranks(read_rank_table(options.rank_table), host.names(), name, host.cores())
        if options.ranks not in (None, len(specs)):
            raise UsageError(f"--ranks {options.ranks} contradicts {options.rank_table}, which has {len(specs)} ranks.")
    else:
        world_size = _world_size(options.ranks, shards)
        specs = local_ranks(world_size, name, [0] * world_size, host.cores())
    device, reason = choose_device(options.device, len(specs), options.oversubscribe)
    if options.device is None or options.verbose:
        print(f"rankmesh: {len(specs)} {'rank' if len(specs) == 1 else 'ranks'}, {reason}", file=sys.stderr)
    if options.verbose:
        print(f"rankmesh: collectives {options.collectives}; {specs[0].threads} threads per rank, "
              f"{'pinned to its cores' if specs[0].cores else 'not pinned: more ranks than cores'}", file=sys.stderr)
    if options.rank_table is None:
        ids = device_ids(device, len(specs))
        specs = [spec.on_device(device_id) for spec, device_id in zip(specs, ids, strict=True)]
    return specs, device


def _world_size(ranks: int | None, shards: Shards) -> int:
    if ranks is not None and ranks < 1:
        raise UsageError(f"--ranks {ranks}: expected 1 or more.")
    return ranks or shards.count


def _job(options: RunOptions, shards: Shards, spec: RankSpec, device: str, world_size: int) -> RunJob:
    spin = world_size * spec.threads <= len(host.cores())
    return RunJob(shards.pattern, shards.count, device, options.inputs, options.expect, options.save, options.rtol,
                  options.atol, options.repeat, spec.threads, spin)


def _command(spec: RankSpec, job: RunJob, timeout: float) -> Command:
    start = Start(spec.rank, msgspec.msgpack.encode(job), timeout)
    arguments = python("-m", "rankmesh.launch.rank_main", f"rank={spec.rank.rank}")
    return Command(arguments, cores=spec.cores, start=start)


def _log(rank: int, stream: int, line: str) -> None:
    print(f"[rank {rank}] {line}", file=sys.stderr)


def merged_seconds(series: Sequence[tuple[float, ...]]) -> list[float]:
    """Per request, the time of the slowest rank."""
    return [max(times) for times in zip(*series, strict=True)]


