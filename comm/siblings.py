"""The processes that one launcher started on this host, as /proc shows them."""

from __future__ import annotations

import os

import psutil

_LAUNCHERS = ("hydra_pmi_proxy", "pmi_proxy", "slurmstepd", "prted", "prterun", "mpiexec", "mpirun")
_RANKS = ("OMPI_COMM_WORLD_RANK", "PMI_RANK")


def launching_process() -> psutil.Process:
    """The nearest ancestor that is a launcher, else the parent."""
    ancestors = psutil.Process().parents()
    return next((process for process in ancestors if process.name() in _LAUNCHERS), ancestors[0])


def launch_name() -> str:
    """What the ranks of one launch on this host have in common, and no other launch has."""
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
