"""Where the threads of callers wait until somebody has answered them, in one nameless shared-memory file."""

from __future__ import annotations

import ctypes
import fcntl
import mmap
import os
from collections import deque

from .. import futex
from ..pause import pause

_LINE = 16  # words: two cache lines, as processors fetch them in pairs
_SEATS = 512
_TOLD, _ASLEEP = range(2)

_LOOKS = 100
"""How often a caller looks before it sleeps: 0.05 ms, less than a rank, as its program's other threads wait for it."""

NO_SEAT = 0


class Seats:
    """One process's view. Who has taken a seat waits there; whoever has its number may tell it that there is news.

    News may also be another's, of whom who had the seat before: whoever is told looks.
    """

    def __init__(self, fd: int, spare: bool) -> None:
        """Map the file `fd`, which the seats own from now on.

        `spare` says whether there is a core for each rank and one more: then whoever waits looks for a while before it
        sleeps, as waking a core that has gone to rest takes longer than a small request.
        """
        self.fd, self.spare = fd, spare
        mapping = mmap.mmap(fd, _SEATS * _LINE * 8)
        self._words = memoryview(mapping).cast("Q")
        self._address = ctypes.addressof(ctypes.c_char.from_buffer(mapping))
        self._looks = _LOOKS if spare else 0
        self._free = deque(range(1, _SEATS))

    @staticmethod
    def create() -> int:
        """The descriptor of new seats."""
        fd = os.memfd_create("rankmesh-seats", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        os.ftruncate(fd, _SEATS * _LINE * 8)
        fcntl.fcntl(fd, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW)
        return fd

    def close(self) -> None:
        """Let go of the file and, as soon as nobody waits any more, of the mapping."""
        if self.fd >= 0:
            os.close(self.fd)
        self.fd, self._words = -1, memoryview(bytearray(_SEATS * _LINE * 8)).cast("Q")

    def __del__(self) -> None:
        if getattr(self, "fd", -1) >= 0:
            os.close(self.fd)

    def take(self) -> int:
        """The number of a free seat, NO_SEAT where there is none; in the process that gives them, by any thread."""
        try:
            seat = self._free.pop()
        except IndexError:
            return NO_SEAT
        self._words[seat * _LINE + _TOLD] = 0
        return seat

    def leave(self, seat: int) -> None:
        """Nobody waits there any more."""
        if seat != NO_SEAT:
            self._free.append(seat)

    def wait(self, seat: int) -> None:
        """Wait until told, at most a second. Whatever was told before has to be looked at now."""
        words, told = self._words, seat * _LINE + _TOLD
        for _ in range(self._looks):
            if words[told]:
                break
            pause()
        else:
            words[told + _ASLEEP] = 1
            futex.full_fence()
            futex.wait_long(self._address + told * 8, 0)
            words[told + _ASLEEP] = 0
        words[told] = 0
        futex.full_fence()

    def tell(self, seat: int) -> None:
        """There is news for who waits there."""
        told = seat * _LINE + _TOLD
        self._words[told] = 1
        futex.full_fence()
        if self._words[told + _ASLEEP]:
            futex.wake(self._address + told * 8)
