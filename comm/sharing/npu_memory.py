"""Memory of an Ascend NPU: goes from process to process, by torch_npu (7.2 and later).

This has run against a stand-in alone, never on an NPU. torch_npu shares the memory of a tensor as
its own multiprocessing does: https://gitcode.com/Ascend/pytorch, torch_npu/multiprocessing.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import msgspec
import numpy as np

from ..arrays import Array
from ..decoding import guarded
from ..errors import OutOfMemory, UsageError
from ..host.secrecy import close_to_others
from .device_memory import Ticket

_Handle = tuple[bytes, int, int, bytes, int, bytes, bool]
"""The parts of a storage that torch_npu shares, behind the number of its device."""

_PARTS: Callable[[bytes], _Handle] = guarded(msgspec.msgpack.Decoder(_Handle))
_VISIBLE = "ASCEND_RT_VISIBLE_DEVICES"


class NpuMemory:
    """See DeviceMemory: memory of the tensor `tensor`, whose elements are bytes."""

    fd = -1

    def __init__(self, tensor: Any, ticket: Ticket) -> None:
        self.tensor = tensor
        self.pointer = int(tensor.data_ptr())
        self.ticket = ticket
        self._taken: Any = None

    def write(self, offset: int, data: Array) -> None:
        """See DeviceMemory.write: a copy from memory of the host is done when it returns."""
        import torch

        given = torch.from_numpy(np.ascontiguousarray(data).reshape(-1).view(np.uint8).copy())
        self.tensor[offset : offset + data.nbytes].copy_(given)

    def read(self, offset: int, data: Array) -> None:
        """See DeviceMemory.read."""
        made = self.tensor[offset : offset + data.nbytes].cpu().numpy()
        data.reshape(-1).view(np.uint8)[...] = made

    def put(self, offset: int, tensor: Any) -> None:
        """See DeviceMemory.put."""
        self.tensor[offset : offset + tensor.nbytes].copy_(tensor)
        self._stream().synchronize()

    def take(self, offset: int, tensor: Any) -> None:
        """See DeviceMemory.take."""
        tensor.copy_(self.tensor[offset : offset + tensor.nbytes])
        self._taken = self._stream().record_event()

    def settle(self) -> None:
        """See DeviceMemory.settle."""
        if self._taken:
            self._taken.synchronize()

    def _stream(self) -> Any:
        """The stream in which torch puts the work of this thread."""
        import torch

        return torch.get_device_module(self.tensor.device).current_stream()

    def close(self) -> None:
        """See DeviceMemory.close: there is no descriptor."""


class NpuDevice:
    """See MemoryDevice: an Ascend NPU."""

    kind = "npu"
    """torch's name for such devices."""

    def __init__(self, number: int) -> None:
        """Raises UsageError where torch_npu is missing."""
        try:
            import torch
            import torch_npu  # noqa: F401  # it gives torch its npu
        except ImportError as error:
            raise UsageError(
                "shared memory of an NPU needs torch_npu, which cannot be imported "
                f"({error}): install it."
            ) from error
        self.number = number
        visible = [one for one in os.environ.get(_VISIBLE, "").split(",") if one.strip()]
        self.name = f"npu {visible[number].strip() if number < len(visible) else number}"
        self._device = torch.device(self.kind, number)

    def create(self, size: int) -> NpuMemory:
        """See MemoryDevice.create."""
        import torch

        close_to_others()
        try:
            tensor = torch.zeros(size, dtype=torch.uint8, device=self._device)
        except torch.OutOfMemoryError as error:
            raise OutOfMemory(f"{self.name} has no memory left: {error}") from error
        parts = share_storage(tensor.untyped_storage())
        return NpuMemory(tensor, Ticket("npu", size, msgspec.msgpack.encode(parts)))

    def open(self, ticket: Ticket, fd: int) -> NpuMemory:
        """See MemoryDevice.open."""
        import torch

        try:
            parts = _PARTS(ticket.handle)
        except msgspec.DecodeError as error:
            raise UsageError(
                f"the owner of the weights handed over no memory of an NPU ({error}): run both "
                "with the same version of Rankmesh."
            ) from error
        storage = open_storage(self.number, parts)
        empty = torch.empty(0, dtype=torch.uint8, device=self._device)
        return NpuMemory(empty.set_(storage)[: ticket.size], ticket)


def share_storage(storage: Any) -> _Handle:
    """The parts by which another process opens a storage."""
    return tuple(storage._share_npu_()[1:])


def open_storage(number: int, parts: _Handle) -> Any:
    """The storage of another process, on the NPU `number` of this one."""
    import torch

    return torch.UntypedStorage._new_shared_npu(number, *parts)
