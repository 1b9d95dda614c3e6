"""Place of a device: names it for the ranks of a job, with the collectives that run on it."""

from __future__ import annotations

import os
import socket

import torch
import torch.distributed as dist

from ...host.visible_gpus import VARIABLE
from ...sharing.npu_memory import NpuDevice
from ..device_choice import HOST, DevicePlace
from ..registry import HCCL, NCCL

_MIG = "MIG-"


def device_place(device: torch.device) -> DevicePlace:
    """The place of a device's results; HOST where no collectives of torch run on it.

    nccl refuses MIG instances of one GPU, which no name tells from those of several.
    """
    if not dist.is_available():
        return HOST
    if device.type == "cuda" and dist.is_backend_available(NCCL):
        if os.environ.get(VARIABLE, "").startswith(_MIG):
            return HOST
        return DevicePlace(f"gpu {torch.cuda.get_device_properties(device).uuid}", NCCL)
    if device.type == "npu" and dist.is_backend_available(HCCL):
        return DevicePlace(f"{socket.gethostname()} {NpuDevice(device.index or 0).name}", HCCL)
    return HOST
