"""Context: the devices that a model runs on, and the settings for each."""

from __future__ import annotations

import os
from typing import Any

from ...compiler.model_file.config import Sections
from .arguments import (
    Attribute,
    Count,
    IntList,
    Text,
    check_count,
    check_elements,
    check_sections,
    check_type,
)
from .device_context import AscendContext, CpuContext, DeviceInfo, GpuContext

_DEVICE_NUMBERS = {"cpu": 0, "gpu": 1, "ascend": 3}
TARGETS = tuple(_DEVICE_NUMBERS)


class Context:
    """The devices of a model (`target`), and how each is used (`cpu`, `gpu`, `ascend`, `parallel`).

    `target` is a list of "cpu", "gpu" and "ascend" in the order of preference. Setting an attribute
    raises TypeError or ValueError for a wrong value.

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
        given = {
            "thread_num": thread_num,
            "inter_op_parallel_num": inter_op_parallel_num,
            "thread_affinity_mode": thread_affinity_mode,
            "thread_affinity_core_list": thread_affinity_core_list,
        }
        for name, value in given.items():
            if value is not None:
                setattr(self.cpu, name, value)
        self._old_style = enable_parallel or any(value is not None for value in given.values())

    @property
    def target(self) -> list[str]:
        """The devices in order of preference, as they were given; ["cpu"] unless set."""
        return self._target or ["cpu"]

    @target.setter
    def target(self, devices: list[str] | None) -> None:
        if devices is None:
            devices = []
        check_type("target", devices, list)
        check_elements("target", devices, str)
        for device in devices:
            if device.lower() not in TARGETS:
                raise ValueError(
                    f"target elements must be in {list(TARGETS)}, but got {device.lower()}."
                )
        self._target = devices

    @property
    def has_device(self) -> bool:
        """Whether a device was appended, or a target set."""
        return bool(self._target)

    def append_device_info(self, device_info: DeviceInfo) -> None:
        """Add a device with its id and precision, as older scripts do."""
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
        return (
            f"thread_num: {self.cpu.thread_num},\ninter_op_parallel_num: "
            f"{self.cpu.inter_op_parallel_num},\n"
            f"thread_affinity_mode: {self.cpu.thread_affinity_mode},\n"
            f"thread_affinity_core_list: {self.cpu.thread_affinity_core_list},\n"
            f"enable_parallel: {self.enable_parallel},\ndevice_list: {devices}."
        )


class ExistingPath(Attribute[str]):
    """The path of an existing file; setting an empty one changes nothing."""

    def __init__(self, label: str) -> None:
        super().__init__("", label)

    def __set__(self, instance: object, value: str) -> None:
        checked = self.checked(value)
        if checked:
            super().__set__(instance, checked)

    def checked(self, value: str) -> str:
        """See Attribute."""
        check_type(self.label, value, str)
        if value and not os.path.exists(value):
            raise ValueError(f"{self.label} does not exist, got '{value}'.")
        return value


class ParallelContext:
    """Workers of a ModelParallelRunner: their number, devices and configuration.

    `workers_num` is the number of workers (0: as many as fit), `device_ids` the devices that they
    are spread over, `config_path` an .ini file, `config_info` sections that override it.
    """

    workers_num = Count("workers_num")
    config_path = ExistingPath("config_path")
    device_ids = IntList("device_ids", non_negative=True)

    def __init__(self) -> None:
        self.sections: Sections = {}

    @property
    def config_info(self) -> Any:
        """The sections. Set: a dict that overrides those set before. Get: lines of text, `section:
        key value`.
        """
        lines = [
            f"{section}: {key} {value}"
            for section, entries in self.sections.items()
            for key, value in entries.items()
        ]
        return "\n".join(lines)

    @config_info.setter
    def config_info(self, sections: Sections) -> None:
        check_sections("config_info", sections)
        self.sections.update({name: dict(entries) for name, entries in sections.items()})

    def __str__(self) -> str:
        return (
            f"workers num: {self.workers_num},\nconfig info: {self.config_info},\n"
            f"config file: {self.config_path}."
        )


class MissingConfig(ValueError, RuntimeError):
    """The configuration file does not exist; releases of MindSpore Lite raised either base
    class."""


class RunnerConfig:
    """Context of a runner's workers, their number (0 or None: as many as fit) and configuration.

    `config_path` is an .ini file, `config_info` has sections that override it. Raises TypeError and
    ValueError.
    """

    def __init__(
        self,
        context: Context | None = None,
        workers_num: int | None = None,
        config_info: Sections | None = None,
        config_path: str | None = None,
    ) -> None:
        if context is not None:
            check_type("context", context, Context)
        if workers_num is not None:
            check_count("workers_num", workers_num)
        if config_info is not None:
            check_sections("config_info", config_info)
        if config_path is not None:
            _check_file(config_path)
        self.context = context
        self.workers_num = workers_num or 0
        self.config_info = {name: dict(entries) for name, entries in (config_info or {}).items()}
        self.config_path = config_path or ""

    def __str__(self) -> str:
        cpu = (self.context or Context()).cpu
        lines = "".join(
            f"{section}: {key} {value}\n"
            for section, entries in self.config_info.items()
            for key, value in entries.items()
        )
        return (
            f"workers num: {self.workers_num},\nconfig info: {lines},\ncontext: thread num: "
            f"{cpu.thread_num}, "
            f"bind mode: {cpu.thread_affinity_mode},\nconfig path: {self.config_path}."
        )


def _check_file(path: str) -> None:
    check_type("config_path", path, str)
    if path and not os.path.exists(path):
        raise MissingConfig(f"config_path does not exist, got '{path}'.")
