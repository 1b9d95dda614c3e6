"""Aligned mapping: a file of shared memory, mapped where the kernel can use pages of 2 MiB.

The kernel then copies it faster, and large memory is there after one page fault in place of 512.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import weakref

import numpy as np

LARGE_PAGE = 1 << 21

_NO_RESERVE = 0x4000  # MAP_NORESERVE, which the mmap module lacks before Python 3.11
_FIXED = 0x10  # MAP_FIXED
_COLLAPSE = 25  # MADV_COLLAPSE, of Linux 6.1
_libc = ctypes.CDLL(None, use_errno=True)
_libc.mmap.restype = ctypes.c_void_p
_libc.mmap.argtypes = [
    *(ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long)
]
_libc.madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]


class AlignedMapping:
    """The first `size` bytes of a file of shared memory, readable and writable.

    `memory`, and views of it, keep the mapping. `descriptor` is one of its own, and is closed with
    this object.
    """

    def __init__(self, descriptor: int, size: int) -> None:
        """Raises OSError, and OverflowError, where there are not as many addresses."""
        flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _NO_RESERVE
        room = mmap.mmap(-1, size + LARGE_PAGE, flags)
        begin = address_of(room)
        self.address = -(-begin // LARGE_PAGE) * LARGE_PAGE
        access, shared = mmap.PROT_READ | mmap.PROT_WRITE, mmap.MAP_SHARED | _FIXED
        if _libc.mmap(self.address, size, access, shared, descriptor, 0) != self.address:
            raise OSError(ctypes.get_errno(), "shared memory cannot be mapped")
        start = self.address - begin
        self.memory = memoryview(room)[start : start + size]
        self.descriptor = os.dup(descriptor)
        weakref.finalize(self, os.close, self.descriptor)

    @classmethod
    def empty(cls) -> AlignedMapping:
        """One of no file, without bytes."""
        made = cls.__new__(cls)
        made.memory, made.address, made.descriptor = memoryview(b""), 0, -1
        return made

    def use_large_pages(self, offset: int, size: int) -> None:
        """Have the whole pages of 2 MiB of this part as such, where the kernel can.

        Pages of 4 KiB that are there take half a millisecond for each MiB, as they are copied. Of
        those that are not, a large page needs one.
        """
        first = -(-offset // LARGE_PAGE) * LARGE_PAGE
        whole = (offset + size - first) // LARGE_PAGE * LARGE_PAGE
        if whole > 0:
            _libc.madvise(self.address + first, whole, _COLLAPSE)  # best effort


def address_of(memory: mmap.mmap | memoryview) -> int:
    """Where some memory begins."""
    return int(np.frombuffer(memory, np.uint8).__array_interface__["data"][0])
