"""Hardware of a rank: the device that its model runs on, and the cores for its threads."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec

from ...comm.decoding import decode_payloads
from ...comm.errors import UsageError
from ...comm.host.resources import gpu_count
from ...comm.job.rank import Rank
from ...comm.loggers import LOG
from ...comm.text import counted
from ..api_types.context import TARGETS, Context

if TYPE_CHECKING:  # the launcher has no use for what these import
    from ...comm.rendezvous.rendezvous import Rendezvous

_warned: set[str] = set()  # once per process and target: a script may build many models


def device_of_targets(targets: Sequence[str]) -> str:
    """The first of `targets` that this machine has, else RANKMESH_DEVICE, else the best there is
    (with a warning).
    """
    wanted = [target.lower() for target in targets]
    for device in wanted:
        if available(device):
            return device
    chosen = best_device()
    if wanted[0] not in _warned:
        _warned.add(wanted[0])
        LOG.warning(
            "target %s: this machine has no such device that onnxruntime or torch can use; running "
            "on %s instead (RANKMESH_DEVICE chooses).",
            wanted[0],
            chosen,
        )
    return chosen


def device_id(device: str, context: Context, rank: Rank, gpus: int) -> int:
    """The number of the `device` that the context names; GPUs are counted around where it names one
    too many.

    One set to the rank's own number, as scripts for MPI do, means the local rank's: on the second
    host of eight GPUs each, rank 8 gets GPU 0.
    """
    wanted = (
        context.ascend.device_id if context.target[0].lower() == "ascend" else context.gpu.device_id
    )
    if rank.world_size > 1 and wanted == rank.rank:
        wanted = rank.device
    return wanted % max(gpus, 1) if device == "gpu" else wanted


def available(device: str) -> bool:
    """Whether models can run on `device` here."""
    if device == "gpu":
        return gpu_count() > 0 and cuda_works()
    return device == "cpu" or cann_there()


def cann_there() -> bool:
    """Whether an executor computes on Ascend devices."""
    return _runs_on("ascend")


def cuda_works() -> bool:
    """Whether an executor computes on NVIDIA GPUs."""
    return _runs_on("gpu")


def _runs_on(device: str) -> bool:
    from ..executors.registry import running_on  # the launcher asks only where there are devices

    return bool(running_on(device))


def best_device() -> str:
    """The device where none is named: RANKMESH_DEVICE, else a GPU if one works, else the CPU."""
    wished = os.environ.get("RANKMESH_DEVICE", "").lower()
    if wished not in ("", *TARGETS):
        raise UsageError(f"RANKMESH_DEVICE={wished}: expected one of {', '.join(TARGETS)}.")
    return wished or ("gpu" if available("gpu") else "cpu")


def device_for_ranks(wanted: str | None, ranks: int, oversubscribe: bool) -> tuple[str, str]:
    """The device and one line that says why; UsageError where a wanted one cannot be had."""
    if wanted not in (None, *TARGETS):
        raise UsageError(f"--device {wanted}: expected one of {', '.join(TARGETS)}.")
    if wanted in ("cpu", "ascend"):
        return wanted, f"device {wanted}, as asked for"
    gpus = gpu_count()
    if wanted == "gpu":
        if gpus < ranks and not (oversubscribe and gpus):
            raise UsageError(
                f"--device gpu: {counted(ranks, 'rank')} {'needs' if ranks == 1 else 'need'} "
                f"{counted(ranks, 'GPU')}, and this host has {gpus}. Use --device "
                f"cpu{', or --oversubscribe to put several ranks on one' if gpus else ''}."
            )
        return "gpu", f"device gpu, as asked for ({counted(gpus, 'GPU')})"
    if not gpus:
        return "cpu", "device cpu: no NVIDIA GPU is visible"
    if gpus < ranks:
        return "cpu", f"device cpu: {counted(gpus, 'GPU')} for {counted(ranks, 'rank')}"
    if not cuda_works():
        return (
            "cpu",
            "device cpu: there are GPUs, but onnxruntime's CUDA provider does not work, and torch "
            "finds none (rankmesh[gpu])",
        )
    return "gpu", f"device gpu: {counted(gpus, 'GPU')} for {counted(ranks, 'rank')}"


def device_ids(device: str, ranks: int) -> list[int]:
    """The device of each rank: one GPU after the other, around where there are fewer."""
    count = gpu_count() if device == "gpu" else ranks
    return [rank % max(count, 1) for rank in range(ranks)]


class CoreSet(msgspec.Struct, frozen=True):
    """Where a rank may run: its host, and the cores that its launcher left it."""

    host: str
    cores: tuple[int, ...]


def agree_on_cores(rendezvous: Rendezvous) -> tuple[int, ...]:
    """The cores for this rank's threads; empty where the host has more ranks than cores. All ranks
    call this.
    """
    mine = CoreSet(rendezvous.rank.host, tuple(sorted(os.sched_getaffinity(0))))
    payloads = rendezvous.exchange(msgspec.msgpack.encode(mine))
    return core_share(decode_payloads(payloads, CoreSet), rendezvous.rank.rank)


def core_share(seats: Sequence[CoreSet], rank: int) -> tuple[int, ...]:
    """The cores of one rank: its own where a launcher pinned the ranks apart, else an even part of
    what they share.
    """
    host = [r for r, seat in enumerate(seats) if seat.host == seats[rank].host]
    mine = set(seats[rank].cores)
    if all(mine.isdisjoint(seats[r].cores) for r in host if r != rank):
        return seats[rank].cores
    sharing = [r for r in host if set(seats[r].cores) == mine]
    each = len(mine) // len(sharing)
    place = sharing.index(rank)
    return seats[rank].cores[place * each : (place + 1) * each]
