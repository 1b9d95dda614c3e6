"""Memory devices: the kinds of devices whose memory goes from process to process."""

from __future__ import annotations

from collections.abc import Callable

from .cuda_memory import CudaDevice
from .device_memory import MemoryDevice
from .npu_memory import NpuDevice

_KINDS: dict[str, Callable[[int], MemoryDevice]] = {"gpu": CudaDevice, "ascend": NpuDevice}


def memory_device(kind: str, number: int) -> MemoryDevice | None:
    """The device of an executor's kind; None where its memory is the host's. Raises UsageError."""
    make = _KINDS.get(kind)
    return make(number) if make else None
