"""Page holds: keep ranges of a shared file in place, as long as a process needs them there.

A device that knows a page by its place in the host's memory would use the old one after the file
has lost it. So a process that registers pages with a device holds them, by a lock of the kernel
that ends with the process. A process that takes pages from the file leaves those.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
from typing import Protocol

from ..errors import RankmeshError

_PUNCH = 0x01 | 0x02  # FALLOC_FL_KEEP_SIZE | FALLOC_FL_PUNCH_HOLE
_libc = ctypes.CDLL(None, use_errno=True)
_libc.fallocate.argtypes = [ctypes.c_int, ctypes.c_int, ctypes.c_long, ctypes.c_long]


class PageRegistrar(Protocol):
    """Makes memory of this process known to a device, which then reads and writes it by itself."""

    def register(self, address: int, size: int) -> None:
        """Register whole pages. Where the device refuses them, it uses them as any others."""

    def unregister(self, address: int) -> None:
        """Undo that, for pages from this address that are still mapped."""


def hold_pages(fd: int, size: int) -> None:
    """Hold the first `size` bytes of a file until this process ends, or closes the file."""
    fcntl.lockf(fd, fcntl.LOCK_SH, size)


def free_pages(fd: int, offset: int, size: int) -> None:
    """Give pages of a file back to the system, if no other process holds any of them.

    No process gets a hold meanwhile. Raises RankmeshError.
    """
    try:
        fcntl.lockf(fd, fcntl.LOCK_EX | fcntl.LOCK_NB, size, offset)
    except (BlockingIOError, PermissionError):
        return
    try:
        if _libc.fallocate(fd, _PUNCH, offset, size):
            raise RankmeshError(f"freeing shared memory: {os.strerror(ctypes.get_errno())}")
    finally:
        fcntl.lockf(fd, fcntl.LOCK_UN, size, offset)
