"""A file without a name, in memory: its maker writes it, whoever is handed it can only read."""

from __future__ import annotations

import fcntl
import mmap
import os

from .undumpable import close_to_others

_SEALS = (fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL
          | 0x0010)  # F_SEAL_FUTURE_WRITE, which the fcntl module lacks before Python 3.14: no new writable mapping


class MemoryFile:
    """`size` bytes, written through `bytes`; `fd` is read-only, and stays so whoever opens it again."""

    def __init__(self, name: str, size: int) -> None:
        """`name` is for those who read /proc/PID/maps. The size never changes; unwritten bytes are 0.

        The process is closed to others first (see undumpable.py).
        """
        close_to_others()
        writable = os.memfd_create(f"rankmesh-{name}", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        try:
            os.ftruncate(writable, size)
            self._map = mmap.mmap(writable, size)
            fcntl.fcntl(writable, fcntl.F_ADD_SEALS, _SEALS)
            self.fd = os.open(f"/proc/self/fd/{writable}", os.O_RDONLY | os.O_CLOEXEC)
        finally:
            os.close(writable)
        self.bytes = memoryview(self._map)

    @property
    def size(self) -> int:
        """Bytes in the file."""
        return len(self._map)

    def close(self) -> None:
        """Let go of the descriptor; the memory is freed once nobody maps it any more."""
        if self.fd >= 0:
            os.close(self.fd)
        self.fd = -1


def map_read_only(fd: int) -> memoryview:
    """The whole file behind `fd`, for reading. ValueError where it is not sealed as MemoryFile seals it.

    Without the seals its maker could shrink it, and reading it would kill the process (SIGBUS).
    """
    seals = fcntl.fcntl(fd, fcntl.F_GET_SEALS)
    if seals & _SEALS != _SEALS:
        raise ValueError(f"the file has the seals {seals:#x}, expected {_SEALS:#x}")
    return memoryview(mmap.mmap(fd, 0, access=mmap.ACCESS_READ))
