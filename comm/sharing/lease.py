"""Leases: the version of the weights that each reader computes with, told to the owner."""

from __future__ import annotations

import ctypes
import mmap
import os
import platform
from collections.abc import Iterator
from contextlib import contextmanager

from ..errors import UsageError
from ..host.sealed_memory import FIXED, create_sealed, seals_of

_BYTES = 4096
_MEMBARRIER = {"x86_64": 324, "aarch64": 283}
_LIBC = ctypes.CDLL(None, use_errno=True)


class Lease:
    """One reader's word: one more than the version that it computes with; 0 between requests.

    Each reader shares a file of its own with the owner, so that none can write for another.
    """

    def __init__(self, fd: int) -> None:
        """Map the file `fd`, which stays the caller's. Raises ValueError where `make` did not make
        it.
        """
        if seals_of(fd) != FIXED or os.fstat(fd).st_size != _BYTES:
            raise ValueError("the descriptor is no lease")
        self._word = memoryview(mmap.mmap(fd, _BYTES)).cast("Q")[:1]

    @classmethod
    def make(cls) -> tuple[int, Lease]:
        """A new lease behind its descriptor, which is to be handed over and closed."""
        fd = create_sealed("lease", _BYTES, FIXED)
        return fd, cls(fd)

    def holds_older(self, version: int) -> bool:
        """Whether the reader computes with a version before `version`.

        For the owner, after `barrier`.
        """
        return 0 < self._word[0] <= version

    @contextmanager
    def hold(self, current: memoryview) -> Iterator[int]:
        """Keep the version in `current[0]`, a word that the owner advances, unchanged; yields it.

        The owner advances the word, then orders memory everywhere, then looks at the leases. So
        either the owner sees this lease, or the second look here sees the owner's advance.
        """
        version = -1
        while version != current[0]:
            version = current[0]
            self._word[0] = version + 1
        try:
            yield version
        finally:
            self._word[0] = 0


def become_reader() -> None:
    """Take part in the barriers of owners; once per process, before its first `hold`.

    Raises UsageError where the kernel has no such barrier.
    """
    _membarrier(1 << 2)  # MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED


def barrier() -> None:
    """Order memory on every processor that runs a reader, in microseconds (membarrier(2)).

    Earlier writes of this process are visible to later reads of theirs, and the other way round.
    Readers need no barrier of their own.
    """
    _membarrier(1 << 1)  # MEMBARRIER_CMD_GLOBAL_EXPEDITED


def _membarrier(command: int) -> None:
    if _LIBC.syscall(_MEMBARRIER[platform.machine()], command, 0, 0):
        raise UsageError(
            "shared weights cannot be updated here: membarrier: "
            f"{os.strerror(ctypes.get_errno())}. It needs Linux 4.16 or later, and a sandbox that "
            "allows it."
        )
