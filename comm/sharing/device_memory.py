"""Device memory: goes from process to process, whatever made the device."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Annotated, Any, Literal, Protocol

import msgspec
import numpy as np

from ..arrays import Array

if TYPE_CHECKING:
    import torch

LEGACY_BYTES = 64  # CU_IPC_HANDLE_SIZE
_LONGEST_HANDLE = 1024  # torch_npu's has the names of files, too


class Ticket(msgspec.Struct, frozen=True):
    """The data by which another process maps the memory: its kind, its size in bytes, a legacy
    handle.

    `vmm` memory comes with a descriptor. `ipc` and `npu` memory come with a handle, by which any
    process can open it, for writing too.
    """

    kind: Literal["vmm", "ipc", "npu"]
    size: Annotated[int, msgspec.Meta(ge=0, lt=2**48)]
    handle: Annotated[bytes, msgspec.Meta(max_length=_LONGEST_HANDLE)] = b""


class DeviceMemory(Protocol):
    """Memory at `pointer`, freed with the last reference to it.

    `fd` is the descriptor to hand over with the ticket, -1 where there is none.
    """

    pointer: int
    ticket: Ticket
    fd: int

    def write(self, offset: int, data: Array) -> None:
        """Copy an array to `offset`; every process sees it when this returns."""

    def read(self, offset: int, data: Array) -> None:
        """Copy what is at `offset` to a contiguous array."""

    def put(self, offset: int, tensor: torch.Tensor) -> None:
        """Copy a contiguous tensor of the device to `offset`, behind the work that makes it.

        Every process sees it when this returns.
        """

    def take(self, offset: int, tensor: torch.Tensor) -> None:
        """Copy what is at `offset` to such a tensor, before the work that is given later."""

    def settle(self) -> None:
        """Wait until all that was taken is there."""

    def close(self) -> None:
        """Close the descriptor; the memory stays as long as a process maps it."""


class MemoryDevice(Protocol):
    """A device of this process; `name` is the same in every process, `number` may differ."""

    name: str
    number: int

    def create(self, size: int) -> DeviceMemory:
        """At least `size` bytes, for reading and writing. Raises OutOfMemory, UsageError.

        The process is closed to others first (see comm/host/secrecy.py).
        """

    def open(self, ticket: Ticket, fd: int) -> DeviceMemory:
        """Map memory that another process made, for reading; `fd` stays the caller's.

        Raises UsageError.
        """


class DeviceArray:
    """An array in a device's memory, which it keeps."""

    def __init__(
        self,
        device: MemoryDevice,
        memory: DeviceMemory,
        offset: int,
        dtype: np.dtype[Any],
        shape: tuple[int, ...],
    ) -> None:
        self._device = device
        self._memory = memory
        self._offset = offset
        self.dtype = dtype
        self.shape = shape
        if offset + prod(shape) * dtype.itemsize > memory.ticket.size:
            raise ValueError(
                f"an array of {dtype} {shape} at {offset} ends behind {memory.ticket.size} bytes"
            )

    @property
    def pointer(self) -> int:
        """Its address on the device."""
        return self._memory.pointer + self._offset

    @property
    def tensor(self) -> Any:
        """Its bytes as a tensor, where torch has made the memory; else None."""
        whole = getattr(self._memory, "tensor", None)
        end = self._offset + prod(self.shape) * self.dtype.itemsize
        return None if whole is None else whole[self._offset : end]

    @property
    def number(self) -> int:
        """The number of its device in this process."""
        return self._device.number

    def write(self, array: Array) -> None:
        """Take the values of an array of the same dtype and shape."""
        self._memory.write(self._offset, array)

    def read(self) -> Array:
        """A copy in the host's memory."""
        array: Array = np.empty(self.shape, self.dtype)
        self._memory.read(self._offset, array)
        return array
