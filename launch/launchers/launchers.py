"""Launchers by name: finds the launcher that `rankmesh launch` is to use, and gives it the job.

To add a launcher, write a class with the method of `Launcher`, and enter it in `LAUNCHERS`.
"""

from __future__ import annotations

import os
import shlex
from dataclasses import dataclass
from importlib import import_module
from typing import Protocol, cast

from ...comm.errors import UsageError
from ...comm.host.resources import gpu_count
from ...comm.limits import require_at_most
from ...comm.text import counted
from ...rank_tables.check import MAX_RANKS
from ..options.notice import notice
from ..options.user_files import read_rank_table


@dataclass(frozen=True, slots=True)
class LaunchOptions:
    """The options of `rankmesh launch`; None where one was not given.

    `script` is a file, or the name of a module, and its arguments.
    """

    script: tuple[str, ...]
    module: bool = False
    ranks: int | None = None
    rank_table: str | None = None
    log_dir: str | None = None
    launcher: str = "local"


@dataclass(frozen=True, slots=True)
class ScriptJob:
    """A user's script to run on `size` ranks; `program` is what follows `python`."""

    program: tuple[str, ...]
    size: int
    rank_table: str | None
    log_dir: str | None


class Launcher(Protocol):
    """A way to start a user's script on every rank."""

    def launch(self, job: ScriptJob) -> int:
        """Run the script on all ranks; the exit status, that of the first rank that failed.

        Raises UsageError where the ranks cannot be started.
        """


LAUNCHERS = {
    "local": "local_launcher.LocalLauncher",
    "mpirun": "mpirun_launcher.MpirunLauncher",
}
"""The launchers by the name that `--launcher` takes: module of this folder, and class."""


def launch(options: LaunchOptions) -> int:
    """Run a script with the launcher that the options name; the exit status."""
    program = _program(options)
    launcher = launcher_named(options.launcher)
    job = ScriptJob(program, _size(options, program), options.rank_table, options.log_dir)
    return launcher.launch(job)


def launcher_named(name: str) -> Launcher:
    """The launcher of this name; UsageError where there is none."""
    if name not in LAUNCHERS:
        raise UsageError(f"--launcher {name}: expected {' or '.join(LAUNCHERS)}.")
    module, _, kind = LAUNCHERS[name].partition(".")
    return cast(Launcher, getattr(import_module(f".{module}", __package__), kind)())


def _program(options: LaunchOptions) -> tuple[str, ...]:
    if not options.script:
        raise UsageError("say which script to launch, or -m MODULE.")
    if options.module:
        return ("-m", *options.script)
    if not os.path.isfile(options.script[0]):
        raise UsageError(f"{options.script[0]}: no such script.")
    return options.script


def _size(options: LaunchOptions, program: tuple[str, ...]) -> int:
    if options.rank_table is not None:
        size = read_rank_table(options.rank_table).world_size
        if options.ranks not in (None, size):
            raise UsageError(
                f"--ranks {options.ranks} contradicts {options.rank_table}, which has "
                f"{counted(size, 'rank')}."
            )
        return size
    if options.ranks is None:
        return _one_per_gpu(program)
    if options.ranks < 1:
        raise UsageError(f"--ranks {options.ranks}: expected 1 or more.")
    require_at_most("--ranks", options.ranks, MAX_RANKS)
    return options.ranks


def _one_per_gpu(program: tuple[str, ...]) -> int:
    """The number of GPUs; UsageError where there is none, as the model's shards are not known."""
    gpus = gpu_count()
    if not gpus:
        raise UsageError(
            "how many ranks? Give as many as the model has shards: rankmesh launch --ranks 2 "
            f"{shlex.join(program)} (or --rank-table FILE). Without either there is one rank per "
            "visible NVIDIA GPU, and here is none."
        )
    notice(f"{counted(gpus, 'rank')}, one per visible GPU (--ranks N starts N)")
    return gpus
