"""The device that a model runs on: what its Context asks for, or what takes its place where that is missing."""

from __future__ import annotations

import functools
import logging
import os
from collections.abc import Sequence

from ..comm.context import TARGETS, Context
from ..comm.errors import UsageError
from ..comm.gpus import gpu_count
from ..comm.rank import Rank

_LOG = logging.getLogger("rankmesh")
_warned: set[str] = set()  # once per process and target: a script may build many models


def choose_device(targets: Sequence[str]) -> str:
    """The first of `targets` that this machine has, else RANKMESH_DEVICE, else the best there is (with a warning)."""
    wanted = [target.lower() for target in targets]
    for device in wanted:
        if available(device):
            return device
    chosen = best_device()
    if wanted[0] not in _warned:
        _warned.add(wanted[0])
        _LOG.warning("target %s: this machine has no such device that onnxruntime can use; running on %s instead "
                     "(RANKMESH_DEVICE chooses).", wanted[0], chosen)
    return chosen


def device_id(device: str, context: Context, rank: Rank, gpus: int) -> int:
    """The number of the `device` that the context names; GPUs are counted around where it names one too many.

    One set to the rank's own number, as scripts for MPI do, means the local rank's: on the second host of eight GPUs
    each, rank 8 gets GPU 0.
    """
    wanted = context.ascend.device_id if context.target[0].lower() == "ascend" else context.gpu.device_id
    if rank.world_size > 1 and wanted == rank.rank:
        wanted = rank.device
    return wanted % max(gpus, 1) if device == "gpu" else wanted


def available(device: str) -> bool:
    """Whether models can run on `device` here."""
    if device == "gpu":
        return gpu_count() > 0 and cuda_works()
    return device == "cpu" or cann_there()


def cann_there() -> bool:
    """Whether onnxruntime was built for Ascend devices."""
    try:
        import onnxruntime as ort
    except ImportError:
        return False
    return "CANNExecutionProvider" in ort.get_available_providers()


@functools.cache
def cuda_works() -> bool:
    """Whether a session on CUDA really gets CUDA: the provider may be there and its libraries not."""
    try:
        import onnxruntime as ort
        from onnx import TensorProto, helper
    except ImportError:
        return False
    if "CUDAExecutionProvider" not in ort.get_available_providers():
        return False
    value = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1]) for name in "xy"]
    graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "probe", value[:1], value[1:])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    ort.set_default_logger_severity(4)
    session = ort.InferenceSession(model.SerializeToString(), providers=["CUDAExecutionProvider"])
    return bool(session.get_providers()[0] == "CUDAExecutionProvider")


def best_device() -> str:
    """The device where nobody names one: RANKMESH_DEVICE, else a GPU if one works, else the CPU."""
    wished = os.environ.get("RANKMESH_DEVICE", "").lower()
    if wished not in ("", *TARGETS):
        raise UsageError(f"RANKMESH_DEVICE={wished}: expected one of {', '.join(TARGETS)}.")
    return wished or ("gpu" if available("gpu") else "cpu")
