"""MPI processes of this host: finds the ranks of one launch, and unnames their shared memory."""

from __future__ import annotations

import os
from contextlib import suppress

import psutil

_LAUNCHERS = ("hydra_pmi_proxy", "pmi_proxy", "slurmstepd", "prted", "prterun", "mpiexec", "mpirun")
_RANKS = ("OMPI_COMM_WORLD_RANK", "PMI_RANK")


def launching_process() -> psutil.Process:
    """The nearest ancestor that is a launcher, else the parent."""
    ancestors = psutil.Process().parents()
    return next((process for process in ancestors if process.name() in _LAUNCHERS), ancestors[0])


def launch_name() -> str:
    """A name for the ranks of one launch on this host, which no other launch has."""
    process = launching_process()
    return os.environ.get("PMIX_NAMESPACE") or f"{process.pid} {process.create_time()}"


def running_ranks() -> set[int]:
    """The ranks of this launch whose processes still run."""
    found = set()
    for process in launching_process().children(recursive=True):
        try:
            environment = {} if process.status() == psutil.STATUS_ZOMBIE else process.environ()
        except psutil.Error:
            continue
        found |= {int(environment[name]) for name in _RANKS if environment.get(name, "").isdigit()}
    return found


_MPICH = "/dev/shm/mpich_"  # nosec B108  # how MPICH names its own segments, which are only looked for


def unname_segments() -> None:
    """Remove the names of MPICH's segments, once every rank of this host has opened them.

    MPICH 5 removes them when it finishes: where a rank dies, they would stay, 2 MB each. Earlier
    versions do as this does. MPICH runs on without the names, as mapped memory stays mapped.
    """
    with open("/proc/self/maps") as maps:
        paths = {line.split(maxsplit=5)[5].strip() for line in maps if _MPICH in line}
    for path in paths:
        # Another rank may have been first; then the path of the map ends in "(deleted)".
        with suppress(FileNotFoundError):
            os.unlink(path)
