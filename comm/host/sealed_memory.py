"""Sealed memory: files without a name, of which no process that maps them can lose a byte."""

from __future__ import annotations

import fcntl
import mmap
import os

from .secrecy import close_to_others

GROWING = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_SEAL
"""Seals of a file that may become longer. A shorter one would kill its readers (SIGBUS)."""

FIXED = GROWING | fcntl.F_SEAL_GROW
"""Seals of a file that keeps its size."""

READ_ONLY = FIXED | 0x0010
"""Seals of a file that keeps its size and takes no new writable mapping.

0x0010 is F_SEAL_FUTURE_WRITE, which the fcntl module lacks before Python 3.14.
"""


def create_sealed(name: str, size: int, seals: int) -> int:
    """Create a file of `size` zero bytes; returns its descriptor, which closes on exec.

    `name` shows in /proc/PID/maps. Raises OSError.
    """
    fd = _create(name, size)
    fcntl.fcntl(fd, fcntl.F_ADD_SEALS, seals)
    return fd


class SealedMemory:
    """`size` bytes that their maker writes through `bytes`, and receivers of `fd` only read."""

    def __init__(self, name: str, size: int) -> None:
        """Create the memory, all zero; its size never changes. `name` shows in /proc/PID/maps.

        The process is closed to others first (see secrecy.py). Raises OSError.
        """
        close_to_others()
        writable = _create(name, size)
        try:
            self._map = mmap.mmap(writable, size)
            fcntl.fcntl(writable, fcntl.F_ADD_SEALS, READ_ONLY)
            self.fd = os.open(f"/proc/self/fd/{writable}", os.O_RDONLY | os.O_CLOEXEC)
        finally:
            os.close(writable)
        self.bytes = memoryview(self._map)

    @property
    def size(self) -> int:
        """Bytes in the file."""
        return len(self._map)

    def close(self) -> None:
        """Close the descriptor. The memory is freed with its last mapping."""
        if self.fd >= 0:
            os.close(self.fd)
        self.fd = -1


def map_read_only(fd: int) -> memoryview:
    """Map the whole file behind `fd` for reading.

    Raises ValueError where the file lacks the seals of SealedMemory: its maker could then shrink
    it, and reading it would kill the process (SIGBUS).
    """
    seals = seals_of(fd)
    if seals & READ_ONLY != READ_ONLY:
        raise ValueError(f"the file has the seals {seals:#x}, expected {READ_ONLY:#x}")
    return memoryview(mmap.mmap(fd, 0, access=mmap.ACCESS_READ))


def seals_of(fd: int) -> int:
    """The seals of a file in memory. Raises OSError for any other file."""
    return fcntl.fcntl(fd, fcntl.F_GET_SEALS)


def _create(name: str, size: int) -> int:
    fd = os.memfd_create(f"rankmesh-{name}", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    try:
        os.ftruncate(fd, size)
    except OSError:
        os.close(fd)
        raise
    return fd
