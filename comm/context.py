"""The Context: on which devices, and how, a model is to run."""

from __future__ import annotations

from .arguments import check_elements, check_type
from .attributes import Text
from .device_context import AscendContext, CpuContext, GpuContext
from .device_info import DeviceInfo
from .parallel_context import ParallelContext

_DEVICE_NUMBERS = {"cpu": 0, "gpu": 1, "ascend": 3}
TARGETS = tuple(_DEVICE_NUMBERS)


class Context:
    """Where a model runs (`target`) and how (`cpu`, `gpu`, `ascend`, `parallel`).

    The keyword arguments and `append_device_info` are those of older scripts.
    """

    group_info_file = Text("group_info_file")

    def __init__(
        self,
        thread_num: int | None = None,
        inter_op_parallel_num: int | None = None,
        thread_affinity_mode: int | None = None,
        thread_affinity_core_list: list[int] | None = None,
        enable_parallel: bool = False,
    ) -> None:
        self.cpu = CpuContext()
        self.gpu = GpuContext()
        self.ascend = AscendContext()
        self.parallel = ParallelContext()
        self._target: list[str] = []
        check_type("enable_parallel", enable_parallel, bool)
        self.enable_parallel = enable_parallel
        given = {"thread_num": thread_num, "inter_op_parallel_num": inter_op_parallel_num,
                 "thread_affinity_mode": thread_affinity_mode, "thread_affinity_core_list": thread_affinity_core_list}
        for name, value in given.items():
            if value is not None:
                setattr(self.cpu, name, value)
        self._old_style = enable_parallel or any(value is not None for value in given.values())

    @property
    def target(self) -> list[str]:
        """The devices, in order of preference, as they were given; ["cpu"] unless set."""
        return self._target or ["cpu"]

    @target.setter
    def target(self, devices: list[str] | None) -> None:
        if devices is None:
            devices = []
        check_type("target", devices, list)
        check_elements("target", devices, str)
        for device in devices:
            if device.lower() not in TARGETS:
                raise ValueError(f"target elements must be in {list(TARGETS)}, but got {device.lower()}.")
        self._target = devices

    @property
    def has_device(self) -> bool:
        """Whether a device was appended, or a target set."""
        return bool(self._target)

    def append_device_info(self, device_info: DeviceInfo) -> None:
        """Add a device, as older scripts do, with its id and precision."""
        check_type("device_info", device_info, DeviceInfo)
        self._old_style = True
        self._target = [*self._target, device_info.target]
        own = getattr(self, device_info.target)
        if hasattr(device_info, "device_id"):
            own.device_id = device_info.device_id
        if hasattr(device_info, "enable_fp16"):
            own.precision_mode = "preferred_fp16" if device_info.enable_fp16 else "enforce_fp32"

    def __str__(self) -> str:
        targets = f"target: {self.target}."
        return f"{self._old_text()}\n{targets}" if self._old_style else targets

    def _old_text(self) -> str:
        devices = "".join(f"{_DEVICE_NUMBERS[device.lower()]}, " for device in self._target)
        return (f"thread_num: {self.cpu.thread_num},\ninter_op_parallel_num: {self.cpu.inter_op_parallel_num},\n"
                f"thread_affinity_mode: {self.cpu.thread_affinity_mode},\n"
                f"thread_affinity_core_list: {self.cpu.thread_affinity_core_list},\n"
                f"enable_parallel: {self.enable_parallel},\ndevice_list: {devices}.")
