"""Kernel mapping: shared memory of a client, mapped for system calls alone."""

from __future__ import annotations

import ctypes
import mmap
import os
from errno import ENOSYS, EPERM

import numpy as np

LARGE_PAGE = 1 << 21

_FIXED = 0x10  # MAP_FIXED
_COLLAPSE = 25  # MADV_COLLAPSE, of Linux 6.1
_libc = ctypes.CDLL(None, use_errno=True)
_libc.mmap.restype = ctypes.c_void_p
_libc.mmap.argtypes = [
    *(ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long)
]
_libc.process_vm_writev.restype = ctypes.c_ssize_t
_libc.process_vm_writev.argtypes = [
    *(ctypes.c_int, ctypes.c_void_p, ctypes.c_ulong, ctypes.c_void_p, ctypes.c_ulong),
    ctypes.c_ulong,
]
_libc.madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]


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
        private = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
        self._room = mmap.mmap(-1, size + LARGE_PAGE, private, mmap.PROT_READ)
        self._start = -(-_address(self._room) // LARGE_PAGE) * LARGE_PAGE
        self._size = size
        shared, access = mmap.MAP_SHARED | _FIXED, mmap.PROT_READ | mmap.PROT_WRITE
        if _libc.mmap(self._start, size, access, shared, descriptor, 0) != self._start:
            raise OSError(ctypes.get_errno(), "shared memory cannot be mapped")

    def write(self, at: int, data: memoryview) -> int:
        """Write `data`, which fits, to `at`; gives how many bytes. Any number of threads do so at
        once, unlike writes to the file, of which one runs at a time.

        Raises OSError, EFAULT where the file has no such bytes; and Forbidden.
        """
        source, target = _Span(_address(data), len(data)), _Span(self._start + at, len(data))
        ends = ctypes.byref(source), 1, ctypes.byref(target), 1
        count = int(_libc.process_vm_writev(os.getpid(), *ends, 0))
        if count < 0:
            number = ctypes.get_errno()
            if number in (EPERM, ENOSYS):
                raise Forbidden
            raise OSError(number, os.strerror(number))
        return count

    def use_large_pages(self) -> None:
        """Have the file in pages of 2 MiB, where the kernel can: it copies them in half the time.

        It takes about half a millisecond for each MiB, once.
        """
        _libc.madvise(self._start, self._size, _COLLAPSE)  # best effort


def is_whole(found: os.stat_result) -> bool:
    """Whether a file of shared memory has all of its pages: large ones take no more memory then."""
    return found.st_blocks * 512 >= found.st_size


def _address(memory: mmap.mmap | memoryview) -> int:
    return int(np.frombuffer(memory, np.uint8).__array_interface__["data"][0])
