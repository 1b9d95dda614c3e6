"""`rankmesh env`: what was detected about this process, from which variables, and who won."""

from __future__ import annotations

import os

from ..comm.errors import UsageError
from ..comm.identity import Identity, detect
from ..worker.device import gpu_count
from . import host

_LAUNCHERS = ("OMPI_", "PMI", "MPI_LOCAL", "TORCHELASTIC_", "SLURM_", "RANK", "WORLD_SIZE", "LOCAL_", "MASTER_",
              "DEVICE_ID", "CUDA_VISIBLE_DEVICES")


def describe_environment() -> list[str]:
    """The lines that `rankmesh env` prints."""
    try:
        lines = _verdict(detect())
    except UsageError as error:
        lines = [f"no rank: {error}"]
    lines.append(f"cores {host.cores()}, NVIDIA GPUs {gpu_count()}, host names {', '.join(host.names())}")
    lines.append("variables:")
    return lines + [f"  {name}={text}" for name, text in sorted(os.environ.items()) if name.startswith(_LAUNCHERS)]


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
