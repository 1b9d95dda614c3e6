"""The only file that knows mpirun: which MPI is installed, and the command line that starts ranks with it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence

from ..comm.errors import UsageError
from . import host
from .compat_path import compat_path

OPEN_MPI, MPICH = "Open MPI", "MPICH"
_ROOT = ("OMPI_ALLOW_RUN_AS_ROOT", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM")


def run_under_mpirun(ranks: int, program: Sequence[str], rank_table: str | None) -> int:
    """Start `python PROGRAM` on `ranks` ranks with the installed MPI; returns mpirun's exit status."""
    mpirun = find_mpirun()
    command = mpirun_command(mpirun, mpi_kind(mpirun), ranks, len(host.cores()), program)
    environment = {**os.environ, "PYTHONUNBUFFERED": "1", **({"RANK_TABLE_FILE": rank_table} if rank_table else {}),
                   "PYTHONPATH": os.pathsep.join([compat_path(), *filter(None, [os.environ.get("PYTHONPATH")])])}
    refuse_root(mpi_kind(mpirun), os.geteuid(), environment)
    return subprocess.run(command, env=environment, stdin=subprocess.DEVNULL).returncode


def find_mpirun() -> str:
    """The mpirun beside this Python, else on the PATH; UsageError where there is none."""
    beside = os.path.join(os.path.dirname(sys.executable), "mpirun")
    found = beside if os.access(beside, os.X_OK) else shutil.which("mpirun")
    if found is None:
        raise UsageError("mpirun is not installed: install rankmesh[mpi] (it brings Open MPI), or use the launcher "
                         "`local`, which needs none.")
    return found


def mpi_kind(mpirun: str) -> str:
    """Open MPI or MPICH, by what `mpirun --version` says."""
    said = subprocess.run([mpirun, "--version"], capture_output=True, text=True, timeout=30).stdout
    if "Open MPI" in said or "prte" in said.lower():
        return OPEN_MPI
    if "HYDRA" in said.upper() or "MPICH" in said.upper():
        return MPICH
    raise UsageError(f"{mpirun}: neither Open MPI nor MPICH; it says {said[:80]!r}. Start the ranks with it yourself: "
                     f"mpirun -n N python SCRIPT.")


def mpirun_command(mpirun: str, kind: str, ranks: int, cores: int, program: Sequence[str]) -> list[str]:
    """The command line. Open MPI counts slots (cores) and must be told that more ranks are meant."""
    wrapper = [sys.executable, "-m", "rankmesh.launch.mpi_rank", *program]
    if kind == MPICH:
        return [mpirun, "-prepend-rank", "-n", str(ranks), *wrapper]
    placing = ["--oversubscribe", "--bind-to", "none"] if ranks > cores else []
    return [mpirun, "--output", "tag", *placing, "-n", str(ranks), *wrapper]


def refuse_root(kind: str, uid: int, environ: Mapping[str, str]) -> None:
    """Open MPI refuses to start ranks as root unless two variables are set: say so before it does."""
    if kind == OPEN_MPI and uid == 0 and not all(environ.get(name) == "1" for name in _ROOT):
        raise UsageError(f"Open MPI does not start ranks as root. Run as another user, or set {_ROOT[0]}=1 and "
                         f"{_ROOT[1]}=1 if you must (in a container, say).")
