"""Large pages: the kernel copies shared memory of 2 MiB a page in half the time of small ones."""

from __future__ import annotations

import ctypes
import mmap
import os
from contextlib import closing

import numpy as np

LARGE_PAGE = 1 << 21

_FIXED = 0x10  # MAP_FIXED
_COLLAPSE = 25  # MADV_COLLAPSE, of Linux 6.1
_libc = ctypes.CDLL(None)
_libc.mmap.restype = ctypes.c_void_p
_libc.mmap.argtypes = [
    *(ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long)
]
_libc.madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]


def is_whole(found: os.stat_result) -> bool:
    """Whether a file of shared memory has all of its pages: large ones take no more memory then."""
    return found.st_blocks * 512 >= found.st_size


def use_large_pages(descriptor: int, size: int) -> None:
    """Have the first `size` bytes of a file of shared memory in large pages, where the kernel can.

    It takes about half a millisecond for each MiB. The file is mapped for that, at an address that
    fits large pages. No byte of it is touched, so the file may become shorter meanwhile.
    """
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
    with closing(mmap.mmap(-1, size + LARGE_PAGE, flags, mmap.PROT_READ)) as room:
        first = int(np.frombuffer(room, np.uint8).__array_interface__["data"][0])
        start = -(-first // LARGE_PAGE) * LARGE_PAGE
        shared = mmap.MAP_SHARED | _FIXED
        if _libc.mmap(start, size, mmap.PROT_READ, shared, descriptor, 0) == start:
            _libc.madvise(start, size, _COLLAPSE)  # best effort
