"""Launch identity: the rank that this process is, by the variables that launchers set.

Only the edge reads it: the command line, and the API where a user's own script is a rank. All other
code is handed a Rank. The innermost launcher wins: `rankmesh launch`, then MPI, torchrun, a Slurm
job step. A process that a rank of `rankmesh launch` started may have a further launcher of its own,
which is further in.
"""

from __future__ import annotations

import os
import re
import socket
from collections.abc import Callable, Mapping
from contextlib import suppress

import msgspec

from ..errors import UsageError
from ..loggers import find_rank_by
from .environment import CHANNEL_VARIABLE, inherited_fds, job
from .rank import Rank

_NUMBER = re.compile("[0-9]{1,10}")
_NO_STEP = 2**32 - 16  # Slurm numbers its batch and interactive shells from here on
_SLURM_TASKS = "SLURM_STEP_TASKS_PER_NODE"


class LauncherMark(msgspec.Struct, frozen=True):
    """A launcher, by its variables: its name, the rank, and its name for the job."""

    launcher: str
    variables: dict[str, str]
    rank: Rank
    job: str


class LaunchIdentity(msgspec.Struct, frozen=True):
    """The rank that this process is, and the marks of all launchers; the first one counts."""

    rank: Rank
    marks: tuple[LauncherMark, ...]

    @property
    def launcher(self) -> str:
        """The launcher of this rank; empty for a process of no launcher."""
        return self.marks[0].launcher if self.marks else ""

    @property
    def job(self) -> str:
        """A name for the job, which no other job of this host has."""
        return self.marks[0].job if self.marks else ""


def detect(environ: Mapping[str, str] | None = None) -> LaunchIdentity:
    """Read the environment. UsageError where the variables of a launcher contradict each other."""
    variables = os.environ if environ is None else environ
    readers = (
        (_own, *_FURTHER_IN, _slurm) if inherited_fds(variables) else (*_FURTHER_IN, _own, _slurm)
    )
    marks = tuple(mark for read in readers if (mark := read(variables)) is not None)
    return LaunchIdentity(marks[0].rank if marks else single_rank(), marks)


def detected_rank() -> Rank:
    """The rank that this process is; 0 of 1 without a launcher."""
    return detect().rank


def single_rank() -> Rank:
    """The rank of a world of one."""
    return Rank(0, 1, 0, 1, socket.gethostname(), 0)


def _own(variables: Mapping[str, str]) -> LauncherMark | None:
    if CHANNEL_VARIABLE not in variables:
        return None
    return _mark(
        "rankmesh launch",
        variables,
        "RANK",
        "WORLD_SIZE",
        "LOCAL_RANK",
        "LOCAL_WORLD_SIZE",
        job=job(variables),
    )


def _open_mpi(variables: Mapping[str, str]) -> LauncherMark | None:
    job = variables.get("PMIX_NAMESPACE", variables.get("OMPI_MCA_ess_base_jobid", ""))
    return _mark(
        "Open MPI",
        variables,
        "OMPI_COMM_WORLD_RANK",
        "OMPI_COMM_WORLD_SIZE",
        "OMPI_COMM_WORLD_LOCAL_RANK",
        "OMPI_COMM_WORLD_LOCAL_SIZE",
        job=job,
    )


def _mpich(variables: Mapping[str, str]) -> LauncherMark | None:
    if "MPI_LOCALRANKID" not in variables and _slurm(variables) is not None:
        return None  # srun speaks PMI to whatever it starts, MPI program or not
    return _mark(
        "MPICH",
        variables,
        "PMI_RANK",
        "PMI_SIZE",
        "MPI_LOCALRANKID",
        "MPI_LOCALNRANKS",
        job=variables.get("PMI_ID", ""),
    )


def _torchrun(variables: Mapping[str, str]) -> LauncherMark | None:
    if "TORCHELASTIC_RUN_ID" not in variables:
        return None
    parts = ("TORCHELASTIC_RUN_ID", "MASTER_ADDR", "MASTER_PORT", "TORCHELASTIC_RESTART_COUNT")
    return _mark(
        "torchrun",
        variables,
        "RANK",
        "WORLD_SIZE",
        "LOCAL_RANK",
        "LOCAL_WORLD_SIZE",
        job="torchrun " + " ".join(variables.get(part, "") for part in parts),
    )


def _slurm(variables: Mapping[str, str]) -> LauncherMark | None:
    step = variables.get("SLURM_STEP_ID", variables.get("SLURM_STEPID", ""))
    if not _NUMBER.fullmatch(step) or int(step) >= _NO_STEP:
        return None  # a batch shell is not a rank, though it has a SLURM_PROCID
    counted = {**variables, **_slurm_local_size(variables)}
    if counted.get("SLURM_STEP_NUM_TASKS") == "1":
        return None  # perhaps an interactive shell, in which ranks may be started
    mark = _mark(
        "Slurm",
        counted,
        "SLURM_PROCID",
        "SLURM_STEP_NUM_TASKS",
        "SLURM_LOCALID",
        _SLURM_TASKS,
        job=f"slurm {variables.get('SLURM_JOB_ID', '')}.{step}",
    )
    return mark and msgspec.structs.replace(
        mark, variables={name: variables[name] for name in mark.variables}
    )


def _slurm_local_size(variables: Mapping[str, str]) -> dict[str, str]:
    """The number of tasks of this node, from a list such as "4(x2),3" (nodes in order)."""
    node = _number("Slurm", "SLURM_NODEID", variables.get("SLURM_NODEID", "0"))
    for count, repeat in re.findall(r"([0-9]+)(?:\(x([0-9]+)\))?", variables.get(_SLURM_TASKS, "")):
        node -= int(repeat or 1)
        if node < 0:
            return {_SLURM_TASKS: count}
    return {}


_FURTHER_IN: tuple[Callable[[Mapping[str, str]], LauncherMark | None], ...] = (
    _open_mpi,
    _mpich,
    _torchrun,
)


def _mark(
    launcher: str,
    variables: Mapping[str, str],
    rank: str,
    size: str,
    local_rank: str,
    local_size: str,
    job: str,
) -> LauncherMark | None:
    """The mark of four variables; the local ones default to those of a single host."""
    if rank not in variables or size not in variables:
        return None
    names = (rank, size, local_rank, local_size)
    texts = {name: variables[name] for name in names if name in variables}
    numbers = [
        _number(launcher, name, variables.get(name, variables[default]))
        for name, default in zip(names, (rank, size, rank, size), strict=True)
    ]
    try:
        identity = Rank(
            numbers[0], numbers[1], numbers[2], numbers[3], socket.gethostname(), numbers[2]
        )
    except ValueError as error:
        raise UsageError(
            f"the variables of {launcher} contradict each other: {error} ({texts}). Unset them, or "
            "start the ranks again."
        ) from error
    return LauncherMark(launcher, texts, identity, job)


def _number(launcher: str, name: str, text: str) -> int:
    if not _NUMBER.fullmatch(text):
        raise UsageError(
            f"{name}={text!r}, which {launcher} sets, is no number from 0 up. Unset it, or start "
            "the ranks again."
        )
    return int(text)


def _marked_rank() -> int | None:
    """The rank for log records; contradicting variables are the error of another caller."""
    with suppress(UsageError):
        identity = detect()
        return identity.rank.rank if identity.marks else None
    return None


find_rank_by(_marked_rank)
