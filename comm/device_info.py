"""Devices as older scripts name them: objects that are appended to a Context."""

from __future__ import annotations

from .arguments import check_count, check_type
from .identity import detected_rank


class DeviceInfo:
    """Base of the devices that `Context.append_device_info` takes."""

    target = ""


class CPUDeviceInfo(DeviceInfo):
    """The CPU; `enable_fp16` prefers half precision."""

    target = "cpu"

    def __init__(self, enable_fp16: bool = False) -> None:
        check_type("enable_fp16", enable_fp16, bool)
        self.enable_fp16 = enable_fp16

    def __str__(self) -> str:
        return f"device_type: DeviceType.kCPU,\nenable_fp16: {self.enable_fp16}."


class GPUDeviceInfo(DeviceInfo):
    """One GPU."""

    target = "gpu"

    def __init__(self, device_id: int = 0, enable_fp16: bool = False) -> None:
        check_count("device_id", device_id)
        check_type("enable_fp16", enable_fp16, bool)
        self.device_id = device_id
        self.enable_fp16 = enable_fp16

    def get_rank_id(self) -> int:
        """This process's rank, as its launcher says now."""
        return detected_rank().rank

    def get_group_size(self) -> int:
        """How many ranks there are."""
        return detected_rank().world_size

    def __str__(self) -> str:
        return (f"device_type: DeviceType.kGPU,\ndevice_id: {self.device_id},\n"
                f"enable_fp16: {self.enable_fp16}.")


class AscendDeviceInfo(DeviceInfo):
    """One Ascend device."""

    target = "ascend"

    def __init__(self, device_id: int = 0) -> None:
        check_count("device_id", device_id)
        self.device_id = device_id

    def __str__(self) -> str:
        return f"device_type: DeviceType.kAscend,\ndevice_id: {self.device_id}."
