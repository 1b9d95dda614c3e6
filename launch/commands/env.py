"""`rankmesh env`: the rank of this process, the variables that decide it, and all settings."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping

from ...comm.errors import UsageError
from ...comm.host.resources import gpu_count
from ...comm.job.identity import LaunchIdentity, detect
from ..supervision import host

SETTINGS = {
    "RANKMESH_DEVICE": "cpu, gpu or ascend: the replacement of a missing device",
    "RANKMESH_COLLECTIVES": (
        "how ranks exchange tensors: shared_memory, mpi, hierarchical, gloo, nccl, peer or hccl; "
        "by default what fits"
    ),
    "RANKMESH_EXECUTOR": (
        "the executor of segments: onnxruntime, torch, or that of an installed package; by default "
        "the one that suits the device"
    ),
    "RANKMESH_TORCH_COMPILE": "1: the torch executor compiles what it runs",
    "RANKMESH_ALLOW_EQUAL_SHARDS": (
        "1: ranks of a group may have equal shards, if each has inputs of its own"
    ),
    "RANKMESH_COLLECTIVE_TIMEOUT": (
        "seconds that ranks wait for each other; 60 by default, 0 for ever"
    ),
    "RANKMESH_CACHE": (
        "the folder of the model cache, or off; by default orchestrators use "
        "~/.cache/rankmesh/models"
    ),
    "RANKMESH_CACHE_SIZE": "MiB that the model cache may take; 16384 by default, which is 16 GiB",
    "RANKMESH_KEY": "the key of encrypted models, as hex digits",
    "RANKMESH_ALLOW_UNAUTHENTICATED": "1: with a key, plain models and those without tags run too",
    "RANKMESH_KEY_FILE": "the file with the keys between several hosts",
    "RANKMESH_TOKEN": "the token that `rankmesh bench` sends to a server",  # nosec B105  # a text
    "RANKMESH_ADDRESS": "the address of rank 0 for other hosts",
    "RANKMESH_PORT": "the port there; 29410 by default",
    "RANKMESH_COMPAT": (
        "force: `import mindspore_lite` is Rankmesh even if the real package is installed"
    ),
    "RANKMESH_CLOSED": (
        "1: `import rankmesh` closes the process to others of its user (no debugger, no core file)"
    ),
    "RANKMESH_LOG": (
        "json: log lines are JSON where the program has configured no logging; text by default"
    ),
    "RANKMESH_PROGRESS": "0: a terminal shows no lines while a model takes long to load",
}
_SOURCES = (
    ("OMPI_COMM_WORLD_", "Open MPI"),
    ("OMPI_", "settings of Open MPI"),
    ("PRTE_", "settings of Open MPI"),
    ("PMIX_", "PMIx: Open MPI or Slurm"),
    ("PMI_", "PMI: MPICH or Slurm"),
    ("MPI_LOCAL", "MPICH"),
    ("TORCHELASTIC_", "torchrun"),
    ("SLURM_", "Slurm"),
    ("RANKMESH_CHANNEL", "rankmesh launch"),
    ("RANKMESH_JOB", "rankmesh launch"),
    ("RANKMESH_HOSTS", "rankmesh launch"),
    ("WORLD_SIZE", "torchrun or rankmesh launch"),
    ("LOCAL_RANK", "torchrun or rankmesh launch"),
    ("LOCAL_WORLD_SIZE", "torchrun or rankmesh launch"),
    ("MASTER_", "torchrun"),
    ("RANK_", "rankmesh launch or Ascend's tools"),
    ("DEVICE_ID", "rankmesh launch or Ascend's tools"),
    ("RANK", "torchrun or rankmesh launch"),
    ("ASCEND_", "Ascend's tools"),
    ("CUDA_VISIBLE_DEVICES", "the user or rankmesh launch"),
)
"""The beginnings of variables' names, with the program that sets them; the first that fits
counts.
"""


_SECRETS = {"RANKMESH_KEY", "RANKMESH_TOKEN"}


def env() -> None:
    """Show the rank of this process, and the launcher's variables that say so."""
    print("\n".join(describe_environment()))


def describe_environment() -> list[str]:
    """The lines that `rankmesh env` prints."""
    try:
        identity = detect()
    except UsageError as error:
        lines, read = [f"no rank: {error}"], {}
    else:
        lines = [*_verdict(identity), *_passed_over(identity, os.environ)]
        read = {name: mark.launcher for mark in reversed(identity.marks) for name in mark.variables}
    lines.append(
        f"cores {host.cores()}, NVIDIA GPUs {gpu_count()}, host names {', '.join(host.names())}"
    )
    lines.append("variables, and the programs that set them:")
    lines += [
        f"  {name}={text}  ({read.get(name, source)}{', read' if name in read else ''})"
        for name, text in sorted(os.environ.items())
        if (source := _source(name))
    ]
    return [
        *lines,
        "settings:",
        *(f"  {name} {_shown(name)}  ({meaning})" for name, meaning in SETTINGS.items()),
    ]


def _shown(name: str) -> str:
    """The state of a setting; secret values do not reach the terminal."""
    if name not in os.environ:
        return "is not set"
    return "is set" if name in _SECRETS else f"= {os.environ[name]}"


def _source(name: str) -> str:
    """The program that sets a variable; empty for settings, and for variables unrelated to
    ranks.
    """
    if name in SETTINGS:
        return ""
    return next((source for start, source in _SOURCES if name.startswith(start)), "")


def _verdict(identity: LaunchIdentity) -> list[str]:
    """The rank of this process, and every mark of a launcher with its variables."""
    rank = identity.rank
    winner = (
        f"by {identity.launcher}" if identity.marks else "no launcher was detected, so it is alone"
    )
    lines = [
        f"rank {rank.rank} of {rank.world_size}, local rank {rank.local_rank} of "
        f"{rank.local_size}, on {rank.host}: {winner}"
    ]
    for place, mark in enumerate(identity.marks):
        seen = ", ".join(f"{name}={text}" for name, text in mark.variables.items())
        verdict = (
            "won: the innermost launcher"
            if place == 0
            else f"ignored: {identity.launcher} is further in"
        )
        lines.append(
            f"  {mark.launcher}: rank {mark.rank.rank} of {mark.rank.world_size} ({verdict}); "
            f"from {seen}"
        )
    return lines


def _passed_over(identity: LaunchIdentity, variables: Mapping[str, str]) -> Iterator[str]:
    """Variables that look like a launcher's mark and are not, with the reason."""
    found = {mark.launcher for mark in identity.marks}
    if "SLURM_PROCID" in variables and "Slurm" not in found:
        step, tasks = (
            variables.get(f"SLURM_STEP_{name}", "not set") for name in ("ID", "NUM_TASKS")
        )
        yield (
            "  Slurm: ignored, as ranks are a step of several tasks, and here SLURM_STEP_ID is "
            f"{step} and SLURM_STEP_NUM_TASKS {tasks}, as in a batch or interactive shell"
        )
    if "PMI_RANK" in variables and "MPICH" not in found:
        yield (
            "  PMI: ignored, as srun sets PMI_RANK for whatever it starts, and PMI_SIZE must "
            "be there too"
        )
    if {"RANK", "WORLD_SIZE"} <= variables.keys() and not found & {"torchrun", "rankmesh launch"}:
        yield (
            "  RANK and WORLD_SIZE: ignored, as torchrun sets TORCHELASTIC_RUN_ID too, and it "
            "is not set"
        )
