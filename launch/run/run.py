"""`rankmesh run`: the start of a model's ranks on this host, and their reports."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from dataclasses import replace

import msgspec

from ...comm.collectives.registry import BackendChoice, choose_collectives
from ...comm.decoding import decode_payloads
from ...comm.errors import UsageError
from ...comm.job.environment import deadline_from_environment
from ...comm.job.identity import LaunchIdentity, detect
from ...comm.job.names import require_utf8, require_utf8_path
from ...comm.job.placement import RankSpec, local_ranks, table_ranks
from ...comm.job.shard import Shards, find_shards
from ...comm.limits import require_at_most
from ...comm.processes.loading_lines import Loading
from ...comm.processes.rank_process import Command, python
from ...comm.processes.sliced_model import SliceRequest, one_replica, slice_in_child
from ...comm.serving.decoder_files import decoder_config
from ...comm.text import counted
from ...comm.transport.messages import Start
from ...compiler.model_file.config import Config
from ...rank_tables.check import MAX_RANKS
from ...worker.session.hardware import agree_on_cores, device_for_ranks, device_ids
from ..options.notice import notice, notice_line
from ..options.user_files import read_config, read_rank_table
from ..rank.job import RankReport, RunJob
from ..rank.rank_environment import rendezvous_variables
from ..supervision import host
from ..supervision.signals import interruptible
from ..supervision.supervised_job import SupervisedJob
from .files import check_files
from .options import RunOptions


def run(
    options: RunOptions,
    told: dict[int, str] | None = None,
    meanwhile: Callable[[], None] | None = None,
) -> tuple[list[RankReport], bool]:
    """Run a model as `run_shards` does, after slicing it where that is asked for."""
    require_utf8_path(options.model)
    require_utf8(options.inputs, options.expect, options.save, options.slice_dir)
    if options.slice is None:
        if options.slice_dir is not None:
            raise UsageError("--slice-dir is for the shards of --slice: give both, or neither.")
        return run_shards(options, told, meanwhile)
    if detect().rank.world_size > 1 or options.rank_table is not None:
        raise UsageError(
            "--slice is for ranks that this command starts on this host: slice the model by "
            "`rankmesh slice`, and run its shards."
        )
    if options.decryption is not None:
        raise UsageError(
            f"{options.model}: --slice is for plain models, and a key was given. The shards of an "
            "encrypted model would lie on a disk as plain text, which Rankmesh never writes."
        )
    ranks, stages = one_replica(options.slice, options.ranks)
    notice(f"{options.model}: slicing it for {counted(ranks, 'rank')}, unless its shards are kept")
    request = SliceRequest(options.model, ranks, stages, options.slice_dir or "")
    with interruptible("no shards were written"):
        sliced = slice_in_child(request)
    try:
        return run_shards(replace(options, model=sliced.pattern, ranks=ranks), told, meanwhile)
    finally:
        sliced.close()


def run_shards(
    options: RunOptions,
    told: dict[int, str] | None = None,
    meanwhile: Callable[[], None] | None = None,
) -> tuple[list[RankReport], bool]:
    """Run a model on all ranks of this host, and with a rank table together with other hosts.

    Each of these hosts is given the same command. In a process that mpirun, torchrun, srun or
    `rankmesh launch` started, run that process's rank. `meanwhile` is called while the ranks are
    at work.

    Returns the reports in rank order, and whether rank 0 is here, whose process prints them.
    Raises RankmeshError; then `told` has the errors of this host's ranks, by rank.
    """
    _refuse_decoder(options.model)
    shards = find_shards(options.model)
    config = read_config(options.config)
    if options.rank_table is None:
        options = replace(options, rank_table=config.rank_table_file or None)
    identity = detect()
    if identity.rank.world_size > 1:
        return _run_inside(options, config, shards, identity), identity.rank.rank == 0
    specs, device = _specs(options, shards)
    ranks = [spec.rank for spec in specs]
    shards.require(ranks[0].world_size)
    check_files(options, shards, ranks)
    timeout = deadline_from_environment()
    spin = sum(spec.threads for spec in specs) <= len(host.cores())
    variables = rendezvous_variables(ranks[0], options.rank_table)
    job = options.job(shards, device, config, spin)
    commands = [
        _command(spec, job.with_threads(spec.threads), timeout, variables) for spec in specs
    ]
    supervisor = SupervisedJob(ranks, commands, timeout, _log)
    sent = _supervised(supervisor, options.verbose, told, meanwhile)
    all_sent = decode_payloads(sent[:1], list[bytes])[0] if variables else sent  # each rank has all
    reports = decode_payloads(all_sent, RankReport)
    if options.verbose and device != "cpu":
        notice(f"collectives {reports[0].choice}")
    return reports, ranks[0].rank == 0


def _refuse_decoder(model: str) -> None:
    if decoder_config(model) is not None:
        raise UsageError(
            f"{model}: is a decoder, which `rankmesh generate` has generate text: a run of tensors "
            "has no sense for it."
        )


def _run_inside(
    options: RunOptions, config: Config, shards: Shards, identity: LaunchIdentity
) -> list[RankReport]:
    """Run this process's rank, which another launcher started.

    Every rank gets all reports, in rank order. Raises the errors of comm/errors.py.
    """
    from ...worker.api_types.context import Context  # takes long, for ranks only
    from ...worker.session.meet import collectives_for, meet
    from ..rank.run_rank import run_rank

    rank, size = identity.rank, identity.rank.world_size
    if options.ranks not in (None, size):
        raise UsageError(
            f"--ranks {options.ranks} contradicts {identity.launcher}, which started "
            f"{counted(size, 'rank')}. Leave --ranks out, or start {options.ranks}."
        )
    shards.require(size)
    check_files(options, shards, [rank])
    rendezvous = meet(Context(), config)
    cores = agree_on_cores(rendezvous)
    if cores:
        os.sched_setaffinity(0, cores)
    device, reason = device_for_ranks(options.device, rank.local_size, options.oversubscribe)
    if options.verbose and rank.rank == 0:
        choice = collectives_for(rendezvous, device, options.collectives)
        notice(
            f"{counted(size, 'rank')} by {identity.launcher}, {reason}; "
            f"{_planned(choice, device)}; {counted(max(1, len(cores)), 'thread')} per rank"
        )
    device_id = device_ids(device, rank.local_size)[rank.local_rank]
    rendezvous.rank = msgspec.structs.replace(rendezvous.rank, device=device_id)
    threads = max(1, len(cores))
    job = options.job(shards, device, config, spin=bool(cores)).with_threads(threads)
    report = run_rank(job, rendezvous)
    return decode_payloads(rendezvous.exchange(msgspec.msgpack.encode(report)), RankReport)


def _supervised(
    supervisor: SupervisedJob,
    verbose: bool,
    told: dict[int, str] | None,
    meanwhile: Callable[[], None] | None,
) -> list[bytes]:
    try:
        with supervisor, Loading(supervisor.stages) as loading:
            if meanwhile:
                meanwhile()
            return supervisor.run(loading)
    finally:
        if told is not None:
            told.update(supervisor.errors)
        for rank, text in supervisor.followers.items() if verbose else ():
            _log(rank, 2, text)


def _specs(options: RunOptions, shards: Shards) -> tuple[list[RankSpec], str]:
    name = socket.gethostname()
    if options.rank_table is not None:
        specs = table_ranks(read_rank_table(options.rank_table), host.names(), name, host.cores())
        size = specs[0].rank.world_size
        if options.ranks not in (None, size):
            raise UsageError(
                f"--ranks {options.ranks} contradicts {options.rank_table}, which has "
                f"{counted(size, 'rank')}."
            )
    else:
        if options.ranks is not None and options.ranks < 1:
            raise UsageError(f"--ranks {options.ranks}: expected 1 or more.")
        require_at_most("--ranks", options.ranks or 1, MAX_RANKS)
        world_size = options.ranks or shards.count
        specs = local_ranks(world_size, name, [0] * world_size, host.cores())
    device, reason = device_for_ranks(options.device, len(specs), options.oversubscribe)
    if options.device is None or options.verbose:
        notice(f"{counted(len(specs), 'rank')}, {reason}")
    choice = choose_collectives(
        device, "", len(specs) == specs[0].rank.world_size, options.collectives
    )
    if options.verbose:
        notice(
            f"{_planned(choice, device)}; "
            f"{counted(specs[0].threads, 'thread')} per rank, "
            f"{'pinned to its cores' if specs[0].cores else 'not pinned: more ranks than cores'}"
        )
    if options.rank_table is None:
        ids = device_ids(device, len(specs))
        specs = [spec.on_device(device_id) for spec, device_id in zip(specs, ids, strict=True)]
    return specs, device


def _planned(choice: BackendChoice, device: str) -> str:
    """The collectives, before the ranks know each other's devices."""
    if choice.asked or device == "cpu":
        return f"collectives {choice}"
    return f"collectives {choice}, or those of the devices"


def _command(spec: RankSpec, job: RunJob, timeout: float, variables: dict[str, str]) -> Command:
    start = Start(spec.rank, msgspec.msgpack.encode(job), timeout)
    arguments = python("rankmesh.launch.rank.rank_main", f"rank={spec.rank.rank}")
    return Command(arguments, variables, spec.cores, start)


def _log(rank: int, stream: int, line: str) -> None:
    notice_line(rank, line)
