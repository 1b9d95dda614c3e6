"""Mpirun launcher: finds the installed MPI, and becomes its mpirun, which starts the ranks."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NoReturn

from ...comm.errors import UsageError
from ...comm.processes.rank_process import python
from ...comm.text import counted
from ..compat import compat_path
from ..options.notice import notice
from ..supervision import host
from .launchers import ScriptJob
from .rank_printer import open_logs

OPEN_MPI, MPICH = "Open MPI", "MPICH"
_ROOT = ("OMPI_ALLOW_RUN_AS_ROOT", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM")


@dataclass(frozen=True, slots=True)
class Mpirun:
    """An installed mpirun: its path, its MPI (OPEN_MPI or MPICH), and its major version."""

    path: str
    kind: str
    major: int

    def command(self, ranks: int, cores: int, program: Sequence[str]) -> list[str]:
        """The command line; Open MPI has to be told where there are more ranks than cores."""
        if self.kind == MPICH:
            return [self.path, "-prepend-rank", "-n", str(ranks), *program]
        tagging = ["--output", "tag"] if self.major >= 5 else ["--tag-output"]
        placing = ["--oversubscribe", "--bind-to", "none"] if ranks > cores else []
        return [self.path, *tagging, *placing, "-n", str(ranks), *program]


class MpirunLauncher:
    """Replaces this process by mpirun, which runs the script on all ranks."""

    def launch(self, job: ScriptJob) -> NoReturn:
        """See Launcher.launch."""
        for file in open_logs(job.log_dir, range(job.size)).values():
            file.close()  # each rank opens its own again: this tells whether it can
        mpirun = find_mpirun()
        cores = host.physical_cores()
        refuse_root(mpirun.kind, os.geteuid(), os.environ)
        if mpirun.kind == OPEN_MPI and job.size > cores:
            notice(
                f"{counted(job.size, 'rank')} on {counted(cores, 'core')}, which Open MPI calls "
                "slots: told it to --oversubscribe, and not to bind ranks to cores"
            )
        files = [os.path.abspath(name) if name else "" for name in (job.log_dir, job.rank_table)]
        wrapper = python("rankmesh.launch.rank.mpi_rank", *files, *job.program)
        _become(mpirun.command(job.size, cores, wrapper))


def find_mpirun() -> Mpirun:
    """The mpirun beside this Python, else on the PATH.

    Raises UsageError where there is none, or one of an unknown kind.
    """
    beside = os.path.join(os.path.dirname(sys.executable), "mpirun")
    path = beside if os.access(beside, os.X_OK) else shutil.which("mpirun")
    if path is None:
        raise UsageError(
            "mpirun is not installed: `pip install 'rankmesh[mpi]'` brings Open MPI, or use the "
            "launcher `local`, which needs none."
        )
    said = subprocess.run(
        [path, "--version"], capture_output=True, text=True, stdin=subprocess.DEVNULL
    ).stdout
    version = re.search(r"(?:Open MPI\)?|Version:?)\s+v?([0-9]+)", said)
    if "Open MPI" in said:
        return Mpirun(path, OPEN_MPI, int(version.group(1)) if version else 5)
    if "HYDRA" in said.upper() or "MPICH" in said.upper():
        return Mpirun(path, MPICH, int(version.group(1)) if version else 4)
    raise UsageError(
        f"{path}: neither Open MPI nor MPICH; it says {said[:80]!r}. Start the ranks with it "
        "yourself: mpirun -n N python SCRIPT."
    )


def refuse_root(kind: str, uid: int, environ: Mapping[str, str]) -> None:
    """Raise UsageError where Open MPI would refuse to start: as root without two variables."""
    if kind == OPEN_MPI and uid == 0 and not all(environ.get(name) == "1" for name in _ROOT):
        raise UsageError(
            f"Open MPI does not start ranks as root. Run as another user, or set {_ROOT[0]}=1 and "
            f"{_ROOT[1]}=1 if you must (in a container, say)."
        )


def _become(command: list[str]) -> NoReturn:
    folders = [compat_path(), *filter(None, [os.environ.get("PYTHONPATH")])]
    environment = {**os.environ, "PYTHONUNBUFFERED": "1", "PYTHONPATH": os.pathsep.join(folders)}
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.execve(command[0], command, environment)
