"""Kernel mapping: shared memory of a client, mapped for system calls alone."""

from __future__ import annotations

import ctypes
import os
from errno import ENOSYS, EPERM

from ....comm.host.aligned_mapping import AlignedMapping, address_of

_libc = ctypes.CDLL(None, use_errno=True)
_libc.process_vm_writev.restype = ctypes.c_ssize_t
_libc.process_vm_writev.argtypes = [
    *(ctypes.c_int, ctypes.c_void_p, ctypes.c_ulong, ctypes.c_void_p, ctypes.c_ulong),
    ctypes.c_ulong,
]


class Forbidden(Exception):
    """The system forbids the call, as some filters of system calls do."""


class _Span(ctypes.Structure):
    _fields_ = (("address", ctypes.c_void_p), ("size", ctypes.c_size_t))


class KernelMapping:
    """The first `size` bytes of a file of shared memory, at an address that fits large pages.

    Code that touched it would end the process by SIGBUS where the file has become shorter. A system
    call that does so fails.
    """

    def __init__(self, descriptor: int, size: int) -> None:
        """Raises OSError, and OverflowError, where there are not as many addresses."""
        self._mapped = AlignedMapping(descriptor, size)
        self._size = size

    def write(self, at: int, data: memoryview) -> int:
        """Write `data`, which fits, to `at`; gives how many bytes. Any number of threads do so at
        once, unlike writes to the file, of which one runs at a time.

        Raises OSError, EFAULT where the file has no such bytes; and Forbidden.
        """
        source = _Span(address_of(data), len(data))
        target = _Span(self._mapped.address + at, len(data))
        ends = ctypes.byref(source), 1, ctypes.byref(target), 1
        count = int(_libc.process_vm_writev(os.getpid(), *ends, 0))
        if count < 0:
            number = ctypes.get_errno()
            if number in (EPERM, ENOSYS):
                raise Forbidden
            raise OSError(number, os.strerror(number))
        return count

    def write_from(self, at: int, size: int, descriptor: int, offset: int) -> int:
        """Write `size` bytes, which fit, of another file of shared memory to `at`; gives how many.

        From a file in pages of 2 MiB that takes less time than `write`. Raises OSError, EFAULT
        where this file has no such bytes.
        """
        return os.preadv(descriptor, [self._mapped.memory[at : at + size]], offset)

    def use_large_pages(self) -> None:
        """Have the file in pages of 2 MiB, where the kernel can: it copies them in half the time.

        It takes about half a millisecond for each MiB, once.
        """
        self._mapped.use_large_pages(0, self._size)


def is_whole(found: os.stat_result) -> bool:
    """Whether a file of shared memory has all of its pages: large ones take no more memory then."""
    return found.st_blocks * 512 >= found.st_size
