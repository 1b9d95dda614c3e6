"""Instances of a model: Triton's instance groups as replicas and their devices."""

from __future__ import annotations

from dataclasses import dataclass

from ....comm.errors import UsageError
from ....comm.limits import require_at_most
from ....rank_tables.check import MAX_RANKS
from ..grpc.protocol.model_config import ModelConfig, ModelInstanceGroup

_WITH_GPUS = (
    ModelInstanceGroup.KIND_AUTO,
    ModelInstanceGroup.KIND_GPU,
    ModelInstanceGroup.KIND_MODEL,
)

_ON_CPU = 2
"""Instances of a group on the CPU that names no number: Triton's default for ONNX models."""


@dataclass(frozen=True, slots=True)
class Instances:
    """How many replicas a model has, and the GPU of each; without GPUs all are on the CPU.

    `left_out`: groups on the CPU beside others on GPUs, which get no replicas.
    """

    replicas: int
    gpus: tuple[int, ...] = ()
    left_out: bool = False

    @property
    def device(self) -> str:
        """The device of all replicas."""
        return "gpu" if self.gpus else "cpu"


def instances_of(config: ModelConfig, gpus: int) -> Instances:
    """The instances of a model on a host with so many GPUs.

    Raises UsageError where a group needs a GPU that the host has not.
    """
    groups = [one for one in config.instance_group if not one.passive]
    if not groups:
        return Instances(max(1, gpus), tuple(range(gpus)))
    on_gpus: list[int] = []
    on_cpu = 0
    for group in groups:
        found = _gpus_of(config.name, group, gpus)
        count = group.count or (1 if found else _ON_CPU)
        require_at_most(f"model '{config.name}': count of an instance_group", count, MAX_RANKS)
        on_gpus += [gpu for gpu in found for _ in range(count)]
        on_cpu += 0 if found else count
    if on_gpus:
        return Instances(len(on_gpus), tuple(on_gpus), left_out=on_cpu > 0)
    return Instances(on_cpu)


def _gpus_of(model: str, group: ModelInstanceGroup, gpus: int) -> list[int]:
    """The GPUs of a group; none where it runs on the CPU."""
    if group.kind not in _WITH_GPUS:
        return []
    wanted = list(group.gpus) or list(range(gpus))
    if wanted and max(wanted) < gpus:
        return wanted
    if group.kind == ModelInstanceGroup.KIND_GPU:
        raise UsageError(
            f"model '{model}': an instance_group is KIND_GPU on {wanted or 'all GPUs'}, and this "
            f"host has {gpus}. Use KIND_AUTO or KIND_CPU."
        )
    return []
