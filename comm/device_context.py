"""What a Context says about each kind of device: CPU, GPU and Ascend."""

from __future__ import annotations

import logging

from .arguments import check_type
from .attributes import Attribute, Count, IntList, Text
from .identity import detected_rank

_LOG = logging.getLogger("rankmesh")
_AFFINITIES = (0, 1, 2)
_HOST_PRECISIONS = ("enforce_fp32", "preferred_fp16")
_ASCEND_PRECISIONS = ("enforce_fp32", "preferred_fp32", "enforce_fp16", "enforce_origin", "preferred_optimal")


class Affinity(Attribute[int]):
    """0 (no binding), 1 (big cores) or 2 (middle cores); another int counts as 0, with a warning."""

    def __init__(self, label: str) -> None:
        super().__init__(0, label)

    def checked(self, value: int) -> int:
        """See Attribute."""
        check_type(self.label, value, int)
        if value not in _AFFINITIES:
            _LOG.warning("%s is %s, expected one of %s: no thread is bound.", self.label, value, list(_AFFINITIES))
        return value if value in _AFFINITIES else 0


class CpuContext:
    """How the CPU is used. 0 threads mean: as many as this rank's share of the cores."""

    thread_num = Count("cpu_thread_num")
    inter_op_parallel_num = Count("cpu_inter_op_parallel_num")
    thread_affinity_mode = Affinity("cpu_thread_affinity_mode")
    thread_affinity_core_list = IntList("cpu_thread_affinity_core_list")
    precision_mode = Text("cpu_precision_mode", _HOST_PRECISIONS, _HOST_PRECISIONS[0])

    def __str__(self) -> str:
        return (f"device_type: DeviceType.kCPU,\nprecision_mode: {self.precision_mode},\n"
                f"thread_num: {self.thread_num},\ninter_op_parallel_num: {self.inter_op_parallel_num},\n"
                f"thread_affinity_mode: {self.thread_affinity_mode},\n"
                f"thread_affinity_core_list: {self.thread_affinity_core_list}.")


class GpuContext:
    """How a GPU is used. `rank_id` and `group_size` tell which rank of how many this process is."""

    device_id = Count("gpu_device_id")
    precision_mode = Text("gpu_precision_mode", _HOST_PRECISIONS, _HOST_PRECISIONS[0])

    @property
    def rank_id(self) -> int:
        """This process's rank, as its launcher says now; 0 for a process that is alone."""
        return detected_rank().rank

    @property
    def group_size(self) -> int:
        """How many ranks there are; 1 for a process that is alone."""
        return detected_rank().world_size

    def __str__(self) -> str:
        return (f"device_type: DeviceType.kGPU,\nprecision_mode: {self.precision_mode},\n"
                f"device_id: {self.device_id},\nrank_id: {self.rank_id},\ngroup_size: {self.group_size}.")


class AscendContext:
    """How an Ascend device is used. `provider` is "" (ACL), "ge", or another engine's name."""

    device_id = Count("ascend_device_id")
    rank_id = Count("ascend_rank_id")
    provider = Text("ascend_provider")
    precision_mode = Text("ascend_precision_mode", _ASCEND_PRECISIONS)

    @property
    def rank_id_given(self) -> bool:
        """Whether `rank_id` was set: then it must be what the launcher says."""
        return AscendContext.rank_id.given(self)

    @property
    def device_id_given(self) -> bool:
        """Whether `device_id` was set: then it must be what the rank table says."""
        return AscendContext.device_id.given(self)

    def __str__(self) -> str:
        return (f"device_type: DeviceType.kAscend,\nprecision_mode: {self.precision_mode},\n"
                f"device_id: {self.device_id}.provider: {self.provider}.rank_id: {self.rank_id}.")
