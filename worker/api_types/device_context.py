"""Device contexts: the settings of a Context for CPU, GPU and Ascend, and older scripts'
devices."""

from __future__ import annotations

from ...comm.job.identity import detected_rank
from ...comm.loggers import LOG
from .arguments import Attribute, Count, IntList, Text, check_count, check_type

_AFFINITIES = (0, 1, 2)
_CPU_PRECISIONS = ("enforce_fp32", "preferred_fp16", "preferred_bf16")
_GPU_PRECISIONS = (*_CPU_PRECISIONS, "preferred_tf32")
_ASCEND_PRECISIONS = (
    "enforce_fp32",
    "preferred_fp32",
    "enforce_fp16",
    "enforce_origin",
    "preferred_optimal",
)


class Affinity(Attribute[int]):
    """0 (no binding), 1 (big cores) or 2 (middle cores); another int counts as 0 with a warning."""

    def __init__(self, label: str) -> None:
        super().__init__(0, label)

    def checked(self, value: int) -> int:
        """See Attribute."""
        check_type(self.label, value, int)
        if value not in _AFFINITIES:
            LOG.warning(
                "%s is %s, expected one of %s: no thread is bound.",
                self.label,
                value,
                list(_AFFINITIES),
            )
        return value if value in _AFFINITIES else 0


class CpuContext:
    """CPU settings. `thread_num` is the number of threads, 0 for this rank's share of the cores."""

    thread_num = Count("cpu_thread_num")
    inter_op_parallel_num = Count("cpu_inter_op_parallel_num")
    thread_affinity_mode = Affinity("cpu_thread_affinity_mode")
    thread_affinity_core_list = IntList("cpu_thread_affinity_core_list")
    precision_mode = Text("cpu_precision_mode", _CPU_PRECISIONS, _CPU_PRECISIONS[0])

    def __str__(self) -> str:
        return (
            f"device_type: DeviceType.kCPU,\nprecision_mode: {self.precision_mode},\n"
            f"thread_num: {self.thread_num},\ninter_op_parallel_num: "
            f"{self.inter_op_parallel_num},\n"
            f"thread_affinity_mode: {self.thread_affinity_mode},\n"
            f"thread_affinity_core_list: {self.thread_affinity_core_list}."
        )


class GpuContext:
    """GPU settings: the number of the device and its precision."""

    device_id = Count("gpu_device_id")
    precision_mode = Text("gpu_precision_mode", _GPU_PRECISIONS, _GPU_PRECISIONS[0])

    @property
    def rank_id(self) -> int:
        """The rank of this process, read from its launcher's variables; 0 without a launcher."""
        return detected_rank().rank

    @property
    def group_size(self) -> int:
        """The number of ranks, read from the launcher's variables; 1 without a launcher."""
        return detected_rank().world_size

    def __str__(self) -> str:
        return (
            f"device_type: DeviceType.kGPU,\nprecision_mode: {self.precision_mode},\n"
            f"device_id: {self.device_id},\nrank_id: {self.rank_id},\ngroup_size: "
            f"{self.group_size}."
        )


class AscendContext:
    """Ascend settings. `provider` is "" (ACL), "ge", or another engine's name."""

    device_id = Count("ascend_device_id")
    rank_id = Count("ascend_rank_id")
    provider = Text("ascend_provider")
    precision_mode = Text("ascend_precision_mode", _ASCEND_PRECISIONS)

    @property
    def rank_id_given(self) -> bool:
        """Whether `rank_id` was set; it must then equal the launcher's rank."""
        return AscendContext.rank_id.given(self)

    @property
    def device_id_given(self) -> bool:
        """Whether `device_id` was set; it must then equal the rank table's device."""
        return AscendContext.device_id.given(self)

    def __str__(self) -> str:
        return (
            f"device_type: DeviceType.kAscend,\nprecision_mode: {self.precision_mode},\n"
            f"device_id: {self.device_id}.provider: {self.provider}.rank_id: {self.rank_id}."
        )


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
        """The rank of this process, read from its launcher's variables."""
        return detected_rank().rank

    def get_group_size(self) -> int:
        """The number of ranks, read from the launcher's variables."""
        return detected_rank().world_size

    def __str__(self) -> str:
        return (
            f"device_type: DeviceType.kGPU,\ndevice_id: {self.device_id},\n"
            f"enable_fp16: {self.enable_fp16}."
        )


class AscendDeviceInfo(DeviceInfo):
    """One Ascend device."""

    target = "ascend"

    def __init__(self, device_id: int = 0) -> None:
        check_count("device_id", device_id)
        self.device_id = device_id

    def __str__(self) -> str:
        return f"device_type: DeviceType.kAscend,\ndevice_id: {self.device_id}."
