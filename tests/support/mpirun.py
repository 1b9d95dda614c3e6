"""Starts ranks by a real mpirun, as a user does."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest
from processes import PATIENCE, wait_until

SCRIPT = Path(__file__).with_name("mpi_rank.py")
_ENVIRONMENT = {
    "OMPI_ALLOW_RUN_AS_ROOT": "1",
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    "PYTHONUNBUFFERED": "1",
    "PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe",
}


def environment() -> dict[str, str]:
    """This process's variables, with what mpirun wants of root and of a machine with few cores."""
    return {**os.environ, **_ENVIRONMENT}


class Ended:
    """An mpirun that has ended: its status, what it and the ranks printed, and when."""

    def __init__(self, status: int, text: str) -> None:
        self.status, self.text, self.at = status, text, time.time()

    def seconds_after(self, action: str) -> float:
        """How long it lasted after a rank announced an action of mpi_rank.py."""
        line = next(line for line in self.text.splitlines() if line.startswith(f"{action} "))
        return self.at - float(line.split()[1])

    def last_words(self) -> list[str]:
        """The lines that are ours."""
        return [line for line in self.text.splitlines() if line.startswith("rankmesh: ")]


def mpirun() -> str:
    """The mpirun beside this Python or on the PATH; skips the test where MPI is not installed."""
    beside = Path(sys.executable).with_name("mpirun")
    found = str(beside) if beside.exists() else shutil.which("mpirun")
    if found is None or importlib.util.find_spec("mpi4py") is None:
        pytest.skip("mpirun or mpi4py is not installed (rankmesh[mpi])")
    return found


def run_ranks(ranks: int, *arguments: object, script: Path = SCRIPT, **variables: str) -> Ended:
    """Run a script on so many ranks to its end; nothing of it may be left."""
    done = subprocess.run(
        [mpirun(), "-n", str(ranks), sys.executable, str(script), *map(str, arguments)],
        text=True,
        timeout=PATIENCE,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env={**environment(), **variables},
    )
    ended = Ended(done.returncode, done.stdout)
    wait_until(
        lambda: not [p for p in psutil.process_iter() if str(arguments[0]) in _command(p)],
        "all processes of the job to end",
    )
    return ended


def _command(process: psutil.Process) -> list[str]:
    try:
        return process.cmdline()
    except psutil.Error:
        return []
