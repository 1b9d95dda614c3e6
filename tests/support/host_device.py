"""A device whose memory is the host's, shared by descriptors as that of GPUs is."""

from __future__ import annotations

import ctypes
import mmap
import os
from typing import Any

import numpy as np

from rankmesh.comm.arrays import Array
from rankmesh.comm.sharing.device_memory import Ticket


class HostMemory:
    """See DeviceMemory."""

    def __init__(self, fd: int, size: int, owned: bool) -> None:
        self.fd = fd if owned else -1
        self.ticket = Ticket("vmm", size)
        flags = mmap.PROT_READ | (mmap.PROT_WRITE if owned else 0)
        self._memory = mmap.mmap(fd, size, prot=flags)
        whole = np.frombuffer(self._memory, np.uint8)
        self.pointer = int(whole.__array_interface__["data"][0])

    def write(self, offset: int, data: Array) -> None:
        ctypes.memmove(self.pointer + offset, data.ctypes.data, data.nbytes)

    def read(self, offset: int, data: Array) -> None:
        ctypes.memmove(data.ctypes.data, self.pointer + offset, data.nbytes)

    def put(self, offset: int, tensor: Any) -> None:
        ctypes.memmove(self.pointer + offset, tensor.data_ptr(), tensor.nbytes)

    def take(self, offset: int, tensor: Any) -> None:
        ctypes.memmove(tensor.data_ptr(), self.pointer + offset, tensor.nbytes)

    def settle(self) -> None:
        pass  # what was taken is there

    def close(self) -> None:
        if self.fd >= 0:
            os.close(self.fd)
        self.fd = -1


class HostDevice:
    """See MemoryDevice."""

    number = 0

    def __init__(self, name: str = "host") -> None:
        self.name = name

    def create(self, size: int) -> HostMemory:
        fd = os.memfd_create("device")
        os.ftruncate(fd, size)
        return HostMemory(fd, size, owned=True)

    def open(self, ticket: Ticket, fd: int) -> HostMemory:
        return HostMemory(fd, ticket.size, owned=False)
