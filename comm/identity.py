"""Which rank this process is: every launcher that left its mark in the environment, and who wins.

Only the edge calls this (the command line, and the API when a user's own script is a rank); everything
below is handed a Rank. The innermost launcher wins: `rankmesh launch`, then MPI, torchrun, a Slurm job step; a process
that a rank of `rankmesh launch` started in its turn may have been started by a further launcher, which is further in.
"""

from __future__ import annotations

import os
import re
import socket
from collections.abc import Callable, Mapping

import msgspec

from .errors import UsageError
from .inherited import VARIABLE, inherited_fds, job
from .rank import Rank

_NUMBER = re.compile("[0-9]{1,10}")
_NO_STEP = 2**32 - 16  # Slurm numbers its batch and interactive shells from here on
_SLURM_TASKS = "SLURM_STEP_TASKS_PER_NODE"


class Mark(msgspec.Struct, frozen=True):
    """One launcher's mark: its name, the variables it was read from, the identity, and its name for the job."""

    launcher: str
    variables: dict[str, str]
    rank: Rank
    job: str


class Identity(msgspec.Struct, frozen=True):
    """Who this process is, and every mark that was found; the first of them won."""

    rank: Rank
    marks: tuple[Mark, ...]

    @property
    def launcher(self) -> str:
        """Who started this rank; empty for a process that is alone."""
        return self.marks[0].launcher if self.marks else ""

    @property
    def job(self) -> str:
        """What the ranks of this job have in common and no other job of this host has."""
        return self.marks[0].job if self.marks else ""


def detect(environ: Mapping[str, str] | None = None) -> Identity:
    """Read the environment. Raises UsageError where a launcher's variables contradict each other."""
    variables = os.environ if environ is None else environ
    readers = (_own, *_FURTHER_IN, _slurm) if inherited_fds(variables) else (*_FURTHER_IN, _own, _slurm)
    marks = tuple(mark for read in readers if (mark := read(variables)) is not None)
    return Identity(marks[0].rank if marks else alone(), marks)


def detected_rank() -> Rank:
    """The rank that this process is, 0 of 1 when nothing says otherwise."""
    return detect().rank


def alone() -> Rank:
    """A world of one."""
    return Rank(0, 1, 0, 1, socket.gethostname(), 0)


def _own(variables: Mapping[str, str]) -> Mark | None:
    if VARIABLE not in variables:
        return None
    return _mark("rankmesh launch", variables, "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE",
                 job=job(variables))


def _open_mpi(variables: Mapping[str, str]) -> Mark | None:
    job = variables.get("PMIX_NAMESPACE", variables.get("OMPI_MCA_ess_base_jobid", ""))
    return _mark("Open MPI", variables, "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE",
                 "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE", job=job)


def _mpich(variables: Mapping[str, str]) -> Mark | None:
    if "MPI_LOCALRANKID" not in variables and _slurm(variables) is not None:
        return None  # srun speaks PMI to whatever it starts, MPI program or not
    return _mark("MPICH", variables, "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS",
                 job=variables.get("PMI_ID", ""))


def _torchrun(variables: Mapping[str, str]) -> Mark | None:
    if "TORCHELASTIC_RUN_ID" not in variables:
        return None
    parts = ("TORCHELASTIC_RUN_ID", "MASTER_ADDR", "MASTER_PORT", "TORCHELASTIC_RESTART_COUNT")
    return _mark("torchrun", variables, "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE",
                 job="torchrun " + " ".join(variables.get(part, "") for part in parts))


def _slurm(variables: Mapping[str, str]) -> Mark | None:
    step = variables.get("SLURM_STEP_ID", variables.get("SLURM_STEPID", ""))
    if not _NUMBER.fullmatch(step) or int(step) >= _NO_STEP:
        return None  # a batch shell is no rank, though it has a SLURM_PROCID
    counted = {**variables, **_slurm_local_size(variables)}
    if counted.get("SLURM_STEP_NUM_TASKS") == "1":
        return None  # as likely an interactive shell, in which ranks may be started
    mark = _mark("Slurm", counted, "SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID", _SLURM_TASKS,
                 job=f"slurm {variables.get('SLURM_JOB_ID', '')}.{step}")
    return mark and msgspec.structs.replace(mark, variables={name: variables[name] for name in mark.variables})


def _slurm_local_size(variables: Mapping[str, str]) -> dict[str, str]:
    """How many tasks this node has, from a list such as "4(x2),3" (nodes in order)."""
    node = _number("Slurm", "SLURM_NODEID", variables.get("SLURM_NODEID", "0"))
    for count, repeat in re.findall(r"([0-9]+)(?:\(x([0-9]+)\))?", variables.get(_SLURM_TASKS, "")):
        node -= int(repeat or 1)
        if node < 0:
            return {_SLURM_TASKS: count}
    return {}


_FURTHER_IN: tuple[Callable[[Mapping[str, str]], Mark | None], ...] = (_open_mpi, _mpich, _torchrun)


def _mark(launcher: str, variables: Mapping[str, str], rank: str, size: str, local_rank: str, local_size: str,
          job: str) -> Mark | None:
    """The mark that four variables make; the local ones default to those of a single host."""
    if rank not in variables or size not in variables:
        return None
    names = (rank, size, local_rank, local_size)
    texts = {name: variables[name] for name in names if name in variables}
    numbers = [_number(launcher, name, variables.get(name, variables[default]))
               for name, default in zip(names, (rank, size, rank, size), strict=True)]
    try:
        identity = Rank(numbers[0], numbers[1], numbers[2], numbers[3], socket.gethostname(), numbers[2])
    except ValueError as error:
        raise UsageError(f"the variables of {launcher} contradict each other: {error} ({texts}). Unset them, or start "
                         f"the ranks again.") from error
    return Mark(launcher, texts, identity, job)


def _number(launcher: str, name: str, text: str) -> int:
    if not _NUMBER.fullmatch(text):
        raise UsageError(f"{name}={text!r}, which {launcher} sets, is no number from 0 up. Unset it, or start the "
                         f"ranks again.")
    return int(text)
