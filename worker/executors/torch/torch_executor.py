"""Executor on torch: compiles segments for a device that torch knows."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from functools import partial

import onnx
import torch
from google.protobuf.message import DecodeError
from onnx import ModelProto, TensorProto

from ....comm.errors import ModelError, UsageError
from ....compiler.onnx_graph.external import NO_MEMORY, external_array, lies_in, location
from ...partition.plan import Segment
from ..base import ExecutorDevice, UnsupportedNodes
from ..settings import TORCH, ExecutorSettings
from .device_queue import TorchQueue
from .device_run import DeviceRuns
from .graph_compiler import GraphCompiler
from .operator_node import constant_tensor
from .saved_model import save_model
from .tensors import as_tensor
from .torch_segment import TorchSegment
from .torch_settings import TorchSettings

_DEVICES = {"cpu": "cpu", "gpu": "cuda", "ascend": "npu"}


class TorchExecutor:
    """Segments of one process on one device, which compute with `threads` threads of torch."""

    name = TORCH

    def __init__(
        self,
        device: str = "cpu",
        device_id: int = 0,
        threads: int = 1,
        cores: Sequence[int] = (),
        tf32: bool = False,
        compiles: bool = False,
    ) -> None:
        """See ExecutorSettings."""
        self.device = ExecutorDevice(device, device_id)
        self._settings = TorchSettings(
            _torch_device(device, device_id),
            threads,
            tuple(cores) if threads > 1 else (),
            tf32,
            compiles,
        )
        torch.set_num_threads(threads)

    def queue(self) -> DeviceRuns | None:
        """See device_queue; arrays of the host are tensors of a CPU already."""
        settings = self._settings
        if settings.device.type == "cpu":
            return None
        return DeviceRuns(TorchQueue(settings.device, settings.tf32))

    @property
    def options(self) -> str:
        """See Executor.options."""
        return f"{self.name} {torch.__version__}"

    def prepare(
        self, segment: Segment, folder: str, memory: Mapping[str, memoryview] = NO_MEMORY
    ) -> TorchSegment:
        """See Executor.prepare."""
        return self._compiled(segment, segment.model, folder, memory)

    def save(self, segment: Segment, folder: str, place: str) -> None:
        """See Executor.save: the graph as it is, and its weights in one file, aligned."""
        save_model(segment.model, folder, place)

    def load(self, segment: Segment, place: str) -> TorchSegment:
        """See Executor.load."""
        try:
            model = onnx.load(place, load_external_data=False)
        except (OSError, DecodeError) as error:
            raise ModelError(f"{place} cannot be read: {error}") from error
        return self._compiled(segment, model, os.path.dirname(place), NO_MEMORY)

    def _compiled(
        self, segment: Segment, model: ModelProto, folder: str, memory: Mapping[str, memoryview]
    ) -> TorchSegment:
        opsets = {one.domain: one.version for one in model.opset_import}
        initializer = partial(self._initializer, folder, memory)
        compiler = GraphCompiler(opsets, self._settings.device, initializer)
        try:
            calls = compiler.call_list(model.graph, segment.inputs, {})
        except (ValueError, RuntimeError, OSError) as error:
            where = f"the segment that ends in {segment.outputs[0]}"
            raise ModelError(f"torch refuses {where}: {error}") from error
        if compiler.unsupported:
            raise UnsupportedNodes(self.name, compiler.unsupported)
        return TorchSegment(segment, calls, self._settings)

    def _initializer(
        self, folder: str, memory: Mapping[str, memoryview], record: TensorProto
    ) -> torch.Tensor:
        """The tensor of an initializer: a view of its file, or a copy of what is in `memory`."""
        if not location(record):
            return constant_tensor(record, self._settings.device)
        array = external_array(record, folder, memory)
        return as_tensor(array.copy() if lies_in(memory, record) else array).to(
            self._settings.device
        )


def open_executor(settings: ExecutorSettings) -> TorchExecutor:
    """The executor with these settings. Raises UsageError."""
    return TorchExecutor(
        settings.device,
        settings.device_id,
        settings.threads,
        settings.cores,
        settings.tf32,
        settings.compiles,
    )


def runs_on(device: str) -> bool:
    """Whether this torch computes on a kind of device."""
    if device != "ascend":
        return device == "cpu" or torch.cuda.is_available()
    try:
        _import_npu()
    except UsageError:
        return False
    return True


def _torch_device(kind: str, number: int) -> torch.device:
    name = _DEVICES[kind]
    if name == "npu":
        _import_npu()
    if name == "cuda" and not torch.cuda.is_available():
        raise UsageError(
            f"device gpu: torch {torch.__version__} finds no NVIDIA GPU ({_why_no_gpu()}). Install "
            "NVIDIA's driver and a torch that was built with CUDA, or run on the CPU (--device "
            "cpu, RANKMESH_DEVICE=cpu)."
        )
    return torch.device(name) if name == "cpu" else torch.device(name, number)


def _why_no_gpu() -> str:
    """The reason that torch gives: its build, the driver, or what the driver shows."""
    try:
        torch.cuda.init()
    except (AssertionError, RuntimeError) as error:
        return str(error).partition(". ")[0].rstrip(".")
    return "no GPU is visible"


def _import_npu() -> None:
    try:
        import torch_npu  # noqa: F401  # it adds the device to torch
    except ImportError as error:
        raise UsageError(
            f"device ascend: torch_npu cannot be imported ({error}). Install it, or run on the CPU "
            "(--device cpu, RANKMESH_DEVICE=cpu)."
        ) from None
