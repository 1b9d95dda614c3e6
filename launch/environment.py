"""`rankmesh env`: what was detected about this process, every variable with its source, who won, and why."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping

from ..comm.errors import UsageError
from ..comm.gpus import gpu_count
from ..comm.identity import Identity, detect
from . import host
from .settings import SECRET, SETTINGS

_SOURCES = (
    ("OMPI_COMM_WORLD_", "Open MPI"), ("OMPI_", "settings of Open MPI"), ("PRTE_", "settings of Open MPI"),
    ("PMIX_", "PMIx: Open MPI or Slurm"), ("PMI_", "PMI: MPICH or Slurm"), ("MPI_LOCAL", "MPICH"),
    ("TORCHELASTIC_", "torchrun"), ("SLURM_", "Slurm"), ("RANKMESH_CHANNEL", "rankmesh launch"),
    ("RANKMESH_JOB", "rankmesh launch"), ("RANKMESH_HOSTS", "rankmesh launch"),
    ("WORLD_SIZE", "torchrun or rankmesh launch"),
    ("LOCAL_RANK", "torchrun or rankmesh launch"), ("LOCAL_WORLD_SIZE", "torchrun or rankmesh launch"),
    ("MASTER_", "torchrun"), ("RANK_", "rankmesh launch or Ascend's tools"),
    ("DEVICE_ID", "rankmesh launch or Ascend's tools"), ("RANK", "torchrun or rankmesh launch"),
    ("ASCEND_", "Ascend's tools"), ("CUDA_VISIBLE_DEVICES", "the user or rankmesh launch"))
"""What begins the name of a variable, and who sets it; the first that fits counts."""


def describe_environment() -> list[str]:
    """The lines that `rankmesh env` prints."""
    try:
        identity = detect()
    except UsageError as error:
        lines, read = [f"no rank: {error}"], {}
    else:
        lines = [*_verdict(identity), *_passed_over(identity, os.environ)]
        read = {name: mark.launcher for mark in reversed(identity.marks) for name in mark.variables}
    lines.append(f"cores {host.cores()}, NVIDIA GPUs {gpu_count()}, host names {', '.join(host.names())}")
    lines.append("variables (and who sets them):")
    lines += [f"  {name}={text}  ({read.get(name, source)}{', read' if name in read else ''})"
              for name, text in sorted(os.environ.items()) if (source := _source(name))]
    return [*lines, "settings:", *(f"  {name} {_shown(name)}  ({meaning})" for name, meaning in SETTINGS.items())]


def _shown(name: str) -> str:
    """What a setting is; a key is nobody's who looks at the terminal."""
    if name not in os.environ:
        return "is not set"
    return "is set" if name in SECRET else f"= {os.environ[name]}"


def _source(name: str) -> str:
    """Who sets a variable; empty for what has nothing to do with ranks, and for settings, which come by themselves."""
    if name in SETTINGS:
        return ""
    return next((source for start, source in _SOURCES if name.startswith(start)), "")


def _verdict(identity: Identity) -> list[str]:
    """Who this process is, and every mark with its variables."""
    rank = identity.rank
    lines = [f"rank {rank.rank} of {rank.world_size}, local rank {rank.local_rank} of {rank.local_size}, "
             f"on {rank.host}: {_winner(identity)}"]
    for place, mark in enumerate(identity.marks):
        seen = ", ".join(f"{name}={text}" for name, text in mark.variables.items())
        verdict = "won: the innermost launcher" if place == 0 else f"ignored: {identity.launcher} is further in"
        lines.append(f"  {mark.launcher}: rank {mark.rank.rank} of {mark.rank.world_size} ({verdict}); from {seen}")
    return lines


def _winner(identity: Identity) -> str:
    return f"by {identity.launcher}" if identity.marks else "no launcher was detected, so it is alone"


def _passed_over(identity: Identity, variables: Mapping[str, str]) -> Iterator[str]:
    """Variables that look like a launcher's mark and are none, with the reason."""
    found = {mark.launcher for mark in identity.marks}
    if "SLURM_PROCID" in variables and "Slurm" not in found:
        step, tasks = (variables.get(f"SLURM_STEP_{name}", "not set") for name in ("ID", "NUM_TASKS"))
        yield (f"  Slurm: ignored, as ranks are a step of several tasks, and here SLURM_STEP_ID is {step} and "
               f"SLURM_STEP_NUM_TASKS {tasks}, as in a batch or interactive shell")
    if "PMI_RANK" in variables and "MPICH" not in found:
        yield "  PMI: ignored, as srun sets PMI_RANK for whatever it starts, and PMI_SIZE must be there too"
    if {"RANK", "WORLD_SIZE"} <= variables.keys() and not found & {"torchrun", "rankmesh launch"}:
        yield "  RANK and WORLD_SIZE: ignored, as torchrun sets TORCHELASTIC_RUN_ID too, and it is not set"
