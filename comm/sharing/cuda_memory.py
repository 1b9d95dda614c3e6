"""Memory of an NVIDIA GPU that its maker hands to other processes: by descriptor, or where CUDA
gives none, by legacy handle.

https://docs.nvidia.com/cuda/cuda-driver-api/group__CUDA__VA.html (virtual memory management,
descriptors) and https://docs.nvidia.com/cuda/cuda-driver-api/group__CUDA__MEM.html
(cuIpcGetMemHandle, legacy).
"""

from __future__ import annotations

import ctypes
import os
import weakref
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import numpy as np

from ..arrays import Array
from ..errors import UsageError
from ..host.secrecy import close_to_others
from ..loggers import LOG
from .device_memory import LEGACY_BYTES, Ticket
from .gpu import Gpu

if TYPE_CHECKING:
    import torch


class CudaMemory:
    """See DeviceMemory: memory at `pointer` of `gpu`, freed with the last reference to this object.

    `fd` is the descriptor to hand over, -1 where there is none.
    """

    def __init__(
        self, gpu: Gpu, pointer: int, ticket: Ticket, release: ExitStack, fd: int = -1
    ) -> None:
        """`release` frees the memory; `fd` becomes this object's."""
        self.gpu = gpu
        self.pointer = pointer
        self.ticket = ticket
        self.fd = fd
        self._taken: torch.cuda.Event | None = None
        weakref.finalize(
            self, _release, gpu, release, os.getpid()
        ).atexit = False  # the driver ends with the process

    @classmethod
    def create(cls, gpu: Gpu, size: int) -> CudaMemory:
        """At least `size` bytes, for reading and writing. Raises OutOfMemory, UsageError.

        The process is closed to others first (see comm/host/secrecy.py).
        """
        close_to_others()
        with gpu.current():
            if gpu.has_descriptors:
                return cls._create(gpu, size)
            LOG.warning(
                "GPU %d has no virtual memory management: its memory is shared by legacy CUDA "
                "IPC, which lets a listed process write to it, and ends with its owner.",
                gpu.number,
            )
            return cls._create_legacy(gpu, size)

    @classmethod
    def open(cls, gpu: Gpu, ticket: Ticket, fd: int) -> CudaMemory:
        """Map memory that another process made, for reading; `fd` stays the caller's.

        Raises UsageError.
        """
        with gpu.current():
            return (
                cls._open(gpu, ticket, fd)
                if ticket.kind == "vmm"
                else cls._open_legacy(gpu, ticket)
            )

    def write(self, offset: int, data: Array) -> None:
        """Copy an array to `offset`; every process sees it when this returns."""
        data = np.ascontiguousarray(data)
        with self.gpu.current():
            self.gpu.call("cuMemcpyHtoD", self.pointer + offset, data.ctypes.data, data.nbytes)
            # From pageable memory the copy may still be on its way; this stream is the one that it
            # takes.
            self.gpu.call("cuStreamSynchronize", 0)

    def read(self, offset: int, data: Array) -> None:
        """Copy what is at `offset` to a contiguous array."""
        with self.gpu.current():
            self.gpu.call("cuMemcpyDtoH", data.ctypes.data, self.pointer + offset, data.nbytes)

    def put(self, offset: int, tensor: torch.Tensor) -> None:
        """See DeviceMemory.put."""
        stream = self._copy(self.pointer + offset, tensor.data_ptr(), tensor)
        stream.synchronize()

    def take(self, offset: int, tensor: torch.Tensor) -> None:
        """See DeviceMemory.take; the memory may be that of a peer."""
        stream = self._copy(tensor.data_ptr(), self.pointer + offset, tensor)
        self._taken = stream.record_event()

    def settle(self) -> None:
        """See DeviceMemory.settle."""
        if self._taken:
            self._taken.synchronize()

    def close(self) -> None:
        """Close the descriptor; the memory stays as long as a process maps it."""
        if self.fd >= 0:
            os.close(self.fd)
        self.fd = -1

    def _copy(self, target: int, source: int, tensor: torch.Tensor) -> torch.cuda.Stream:
        """Copy the bytes of a tensor in the stream in which torch puts the work of this thread."""
        import torch  # processes without tensors do without

        stream = torch.cuda.current_stream(self.gpu.number)
        if tensor.nbytes:
            with self.gpu.current():
                place = (target, source, tensor.nbytes, stream.cuda_stream)
                self.gpu.call("cuMemcpyDtoDAsync", *place)
        return stream

    @classmethod
    def _create(cls, gpu: Gpu, size: int) -> CudaMemory:
        made = _properties(gpu)
        smallest = gpu.cuda.CUmemAllocationGranularity_flags.CU_MEM_ALLOC_GRANULARITY_MINIMUM
        step = gpu.call("cuMemGetAllocationGranularity", made, smallest)
        ticket = Ticket("vmm", -(-size // step) * step)
        handle = gpu.call("cuMemCreate", ticket.size, made, 0)
        try:  # the mapping and the descriptor keep the memory, the handle is for making them
            pointer, release = _mapped(gpu, handle, ticket.size, write=True)
            with release.pop_all() as held:
                fd = gpu.call("cuMemExportToShareableHandle", handle, _descriptor(gpu), 0)
                os.set_inheritable(fd, False)
                return cls(gpu, pointer, ticket, held.pop_all(), fd)
        finally:
            gpu.call("cuMemRelease", handle)

    @classmethod
    def _create_legacy(cls, gpu: Gpu, size: int) -> CudaMemory:
        pointer = int(gpu.call("cuMemAlloc", size))
        with ExitStack() as release:
            release.callback(gpu.call, "cuMemFree", pointer)
            handle = gpu.call("cuIpcGetMemHandle", pointer)
            ticket = Ticket("ipc", size, ctypes.string_at(handle.getPtr(), LEGACY_BYTES))
            return cls(gpu, pointer, ticket, release.pop_all())

    @classmethod
    def _open(cls, gpu: Gpu, ticket: Ticket, fd: int) -> CudaMemory:
        handle = gpu.call("cuMemImportFromShareableHandle", fd, _descriptor(gpu))
        try:
            pointer, release = _mapped(gpu, handle, ticket.size, write=False)
        finally:
            gpu.call("cuMemRelease", handle)
        return cls(gpu, pointer, ticket, release)

    @classmethod
    def _open_legacy(cls, gpu: Gpu, ticket: Ticket) -> CudaMemory:
        if len(ticket.handle) != LEGACY_BYTES:
            raise UsageError(
                f"the owner of the weights handed over a CUDA IPC handle of {len(ticket.handle)} "
                f"bytes, expected {LEGACY_BYTES}: run both with the same version of Rankmesh."
            )
        handle = gpu.cuda.CUipcMemHandle()
        ctypes.memmove(handle.getPtr(), ticket.handle, LEGACY_BYTES)
        # 1 is CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS, the only flag there is
        pointer = int(gpu.call("cuIpcOpenMemHandle", handle, 1))
        release = ExitStack()
        release.callback(gpu.call, "cuIpcCloseMemHandle", pointer)
        return cls(gpu, pointer, ticket, release)


class CudaDevice:
    """See MemoryDevice: an NVIDIA GPU."""

    def __init__(self, number: int) -> None:
        """Raises UsageError as Gpu does."""
        self.number = number
        self._gpu = Gpu(number)
        self.name = self._gpu.name

    def create(self, size: int) -> CudaMemory:
        """See MemoryDevice.create."""
        return CudaMemory.create(self._gpu, size)

    def open(self, ticket: Ticket, fd: int) -> CudaMemory:
        """See MemoryDevice.open."""
        return CudaMemory.open(self._gpu, ticket, fd)


def _mapped(gpu: Gpu, handle: Any, size: int, write: bool) -> tuple[int, ExitStack]:
    """Addresses for an allocation, and what gives them up."""
    flags = gpu.cuda.CUmemAccess_flags
    access = gpu.cuda.CUmemAccessDesc()
    access.location = _properties(gpu).location
    access.flags = (
        flags.CU_MEM_ACCESS_FLAGS_PROT_READWRITE if write else flags.CU_MEM_ACCESS_FLAGS_PROT_READ
    )
    with ExitStack() as release:
        pointer = int(gpu.call("cuMemAddressReserve", size, 0, 0, 0))
        release.callback(gpu.call, "cuMemAddressFree", pointer, size)
        gpu.call("cuMemMap", pointer, size, 0, handle, 0)
        release.callback(gpu.call, "cuMemUnmap", pointer, size)
        gpu.call("cuMemSetAccess", pointer, size, [access], 1)
        return pointer, release.pop_all()


def _properties(gpu: Gpu) -> Any:
    """Of memory on the GPU that can be handed over as a descriptor."""
    made = gpu.cuda.CUmemAllocationProp()
    made.type = gpu.cuda.CUmemAllocationType.CU_MEM_ALLOCATION_TYPE_PINNED
    made.location.type = gpu.cuda.CUmemLocationType.CU_MEM_LOCATION_TYPE_DEVICE
    made.location.id = gpu.number
    made.requestedHandleTypes = _descriptor(gpu)
    return made


def _descriptor(gpu: Gpu) -> Any:
    return gpu.cuda.CUmemAllocationHandleType.CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR


def _release(gpu: Gpu, release: ExitStack, process: int) -> None:
    if os.getpid() == process:  # a forked child has no use of the driver
        with gpu.current(), release:
            pass
