"""Which device the ranks run on: what was asked for, or the best that is there."""

from __future__ import annotations

from ..comm.counted import counted
from ..comm.errors import UsageError
from ..comm.gpus import gpu_count
from ..worker.device import cuda_works

DEVICES = ("cpu", "gpu", "ascend")


def choose_device(wanted: str | None, ranks: int, oversubscribe: bool) -> tuple[str, str]:
    """The device and one line that says why; UsageError where a wanted one cannot be had."""
    if wanted not in (None, *DEVICES):
        raise UsageError(f"--device {wanted}: expected one of {', '.join(DEVICES)}.")
    if wanted in ("cpu", "ascend"):
        return wanted, f"device {wanted}, as asked for"
    gpus = gpu_count()
    if wanted == "gpu":
        if gpus < ranks and not (oversubscribe and gpus):
            raise UsageError(f"--device gpu: {counted(ranks, 'rank')} {'needs' if ranks == 1 else 'need'} "
                             f"{counted(ranks, 'GPU')}, and this host has {gpus}. Use --device "
                             f"cpu{', or --oversubscribe to put several ranks on one' if gpus else ''}.")
        return "gpu", f"device gpu, as asked for ({counted(gpus, 'GPU')})"
    if not gpus:
        return "cpu", "device cpu: no NVIDIA GPU is visible"
    if gpus < ranks:
        return "cpu", f"device cpu: {counted(gpus, 'GPU')} for {counted(ranks, 'rank')}"
    if not cuda_works():
        return "cpu", "device cpu: there are GPUs, but onnxruntime's CUDA provider does not work (rankmesh[gpu])"
    return "gpu", f"device gpu: {counted(gpus, 'GPU')} for {counted(ranks, 'rank')}"


def device_ids(device: str, ranks: int) -> list[int]:
    """The device of each rank: one GPU after the other, around where there are fewer."""
    count = gpu_count() if device == "gpu" else ranks
    return [rank % max(count, 1) for rank in range(ranks)]
