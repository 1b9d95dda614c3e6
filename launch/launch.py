"""`rankmesh launch`: the user's own script on every rank, supervised."""

from __future__ import annotations

import logging
import os
import shlex
import socket
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import IO

from ..comm.counted import counted
from ..comm.deadline import deadline_from_environment
from ..comm.errors import RankFailed, UsageError
from ..comm.gpus import gpu_count
from ..comm.placement import RankSpec, local_ranks, table_ranks
from ..comm.processes.rank_process import Command
from . import host
from .compat_path import compat_path
from .fold import Folder
from .meeting_variables import meeting_variables
from .mpirun import become_mpirun
from .notice import notice
from .rank_environment import rank_variables, replaced
from .rank_table import read_rank_table
from .supervise import Supervisor

_SIGNALLED = 128


@dataclass(frozen=True, slots=True)
class LaunchOptions:
    """What the user asked for; None where nothing was said. `script` is a file, or a module, and its arguments."""

    script: tuple[str, ...]
    module: bool = False
    ranks: int | None = None
    rank_table: str | None = None
    log_dir: str | None = None
    launcher: str = "local"


def launch(options: LaunchOptions) -> int:
    """Run the script on all ranks; returns the exit status, that of the first rank that failed."""
    program = _program(options)
    if options.launcher == "mpirun":
        size = _size(options)
        for file in _open_logs(options.log_dir, range(size)).values():
            file.close()  # each rank opens its own again, this is to know now that it can
        become_mpirun(size, program, options.rank_table, options.log_dir)
    if options.launcher != "local":
        raise UsageError(f"--launcher {options.launcher}: expected local or mpirun.")
    specs = _specs(options)
    commands = [_command(options, program, spec, [s.rank.device for s in specs]) for spec in specs]
    with _Printer([s.rank.rank for s in specs], options.log_dir) as printer:
        supervisor = Supervisor([s.rank for s in specs], commands, deadline_from_environment(), printer.log)
        try:
            with supervisor:
                supervisor.run(printer)
            return 0
        except RankFailed as error:
            printer.finish()
            notice(str(error), logging.ERROR)
            return _status(supervisor)


def _status(supervisor: Supervisor) -> int:
    """The first failing rank's own status; a signal as shells show it."""
    status = supervisor.status or RankFailed.exit_code
    return _SIGNALLED - status if status < 0 else status


def _size(options: LaunchOptions) -> int:
    if options.rank_table is not None:
        size = read_rank_table(options.rank_table).world_size
        if options.ranks not in (None, size):
            raise UsageError(f"--ranks {options.ranks} contradicts {options.rank_table}, which has "
                             f"{counted(size, 'rank')}.")
        return size
    if options.ranks is None:
        return _one_per_gpu(_program(options))
    if options.ranks < 1:
        raise UsageError(f"--ranks {options.ranks}: expected 1 or more.")
    return options.ranks


def _one_per_gpu(program: tuple[str, ...]) -> int:
    """The number of GPUs; UsageError where there is none: how many shards the script's model has is not known."""
    gpus = gpu_count()
    if not gpus:
        raise UsageError(f"how many ranks? Give as many as the model has shards: rankmesh launch --ranks 2 "
                         f"{shlex.join(program)} (or --rank-table FILE). Without either there is one rank per visible "
                         f"NVIDIA GPU, and here is none.")
    notice(f"{counted(gpus, 'rank')}, one per visible GPU (--ranks N starts N)")
    return gpus


def _specs(options: LaunchOptions) -> list[RankSpec]:
    size, name = _size(options), socket.gethostname()
    if options.rank_table is not None:
        return table_ranks(read_rank_table(options.rank_table), host.names(), name, host.cores())
    return local_ranks(size, name, range(size), host.cores())


def _program(options: LaunchOptions) -> tuple[str, ...]:
    if not options.script:
        raise UsageError("say which script to launch, or -m MODULE.")
    if options.module:
        return ("-m", *options.script)
    if not os.path.isfile(options.script[0]):
        raise UsageError(f"{options.script[0]}: no such script.")
    return options.script


def _command(options: LaunchOptions, program: Sequence[str], spec: RankSpec, devices: Sequence[int]) -> Command:
    table = os.path.abspath(options.rank_table) if options.rank_table else None
    folders = [compat_path(), *filter(None, [os.environ.get("PYTHONPATH")])]
    environment = {**rank_variables(spec.rank, devices, table, os.environ), "PYTHONUNBUFFERED": "1",
                   "PYTHONPATH": os.pathsep.join(folders), **meeting_variables(spec.rank, options.rank_table)}
    arguments = (sys.executable, *replaced(program, spec.rank))
    return Command(arguments, environment, spec.cores)


def _open_logs(log_dir: str | None, ranks: Sequence[int]) -> dict[int, IO[str]]:
    """The log file of each rank, empty; none where there is no folder for them."""
    if log_dir is None:
        return {}
    try:
        os.makedirs(log_dir, exist_ok=True)
        return {r: open(os.path.join(log_dir, f"rank_{r}.log"), "w", buffering=1, encoding="utf-8") for r in ranks}
    except OSError as error:
        raise UsageError(f"--log-dir {log_dir}: {error.strerror}: {error.filename}.") from error


class _Printer:
    """Prints the ranks' lines, folded, and writes each rank's own to its log file."""

    def __init__(self, ranks: Sequence[int], log_dir: str | None) -> None:
        self._folder = Folder(len(ranks))
        self._log_dir = log_dir
        self._ranks = ranks
        self._files: dict[int, IO[str]] = {}

    def __enter__(self) -> _Printer:
        self._files = _open_logs(self._log_dir, self._ranks)
        return self

    def __exit__(self, *_: object) -> None:
        self.finish()
        for file in self._files.values():
            file.close()

    def log(self, rank: int, stream: int, line: str) -> None:
        """Take one line of a rank."""
        if self._files:
            self._files[rank].write(line + "\n")
        self._folder.add(rank, stream, line, time.monotonic())

    def patience(self) -> float | None:
        """How long the supervisor may wait before it calls `tick` again."""
        return self._folder.patience(time.monotonic())

    def tick(self) -> None:
        """Print what is ready."""
        self._print(self._folder.ready(time.monotonic()))

    def finish(self) -> None:
        """Print all that is left."""
        self._print(self._folder.ready(time.monotonic(), everything=True))

    def _print(self, lines: Sequence[tuple[int, str]]) -> None:
        for stream, line in lines:
            print(line, file=sys.stdout if stream == 1 else sys.stderr, flush=True)
