"""Which version of the weights a process computes with: two words that reader and owner share."""

from __future__ import annotations

import fcntl
import mmap
import os
from collections.abc import Iterator
from contextlib import contextmanager

from .membarrier import take_part

_BYTES = 4096
_SEALS = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL


class Lease:
    """One reader's word: the version that it computes with plus one, or 0 while it computes with none.

    Each reader shares a file of its own with the owner, so that none can speak for another.
    """

    def __init__(self, fd: int) -> None:
        """Map the file `fd`, which stays the caller's; ValueError where it is not one of `make`."""
        if fcntl.fcntl(fd, fcntl.F_GET_SEALS) != _SEALS or os.fstat(fd).st_size != _BYTES:
            raise ValueError("the descriptor is no lease")
        self._word = memoryview(mmap.mmap(fd, _BYTES)).cast("Q")[:1]

    @classmethod
    def make(cls) -> tuple[int, Lease]:
        """The descriptor of a new lease, to hand over and close, and the lease."""
        fd = os.memfd_create("rankmesh-lease", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        os.ftruncate(fd, _BYTES)
        fcntl.fcntl(fd, fcntl.F_ADD_SEALS, _SEALS)
        return fd, cls(fd)

    def holds_older(self, version: int) -> bool:
        """Owner: whether the reader computes with a version before `version`; call `barrier` first."""
        return 0 < self._word[0] <= version

    @contextmanager
    def hold(self, current: memoryview) -> Iterator[int]:
        """Reader: keep the version in `current[0]` (a word that the owner advances) unchanged; yields it.

        The owner advances the word, then orders memory everywhere, then looks at the leases: so either it sees this
        one, or the second look here sees its advance.
        """
        version = current[0]
        while True:
            self._word[0] = version + 1
            if current[0] == version:
                break
            version = current[0]
        try:
            yield version
        finally:
            self._word[0] = 0


def become_reader() -> None:
    """Take part in the owners' barriers; once per process, before the first `hold`."""
    take_part()
