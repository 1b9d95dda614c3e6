"""Where threads of callers wait until somebody has answered them: for each a line of shared memory and an eventfd."""

from __future__ import annotations

import fcntl
import mmap
import os
import threading
from collections import deque
from collections.abc import Iterable, Sequence

from .. import futex
from ..pause import pause

_LINE = 16  # words: two cache lines, as processors fetch them in pairs
_SEATS = 64
_TOLD, _ASLEEP = range(2)

_LOOKS = 100
"""How often a caller looks before it sleeps: 0.05 ms, less than a rank, as its program's other threads wait for it."""

_ONE = (1).to_bytes(8, "little")

NO_SEAT = 0


class Seats:
    """One process's view. Who has taken a seat waits there; whoever has its number may tell it that there is news.

    News may also be another's, of whom who had the seat before: whoever is told looks. Eventfds, as Python reads and
    writes files a good deal sooner than it calls a function of libc that it has no name for, once per request.
    """

    def __init__(self, files: Sequence[int], spare: bool) -> None:
        """`files` are what `create` made, which the seats own from now on.

        `spare` says whether there is a core for each rank and one more: then whoever waits looks for a while before it
        sleeps, as waking a core that has gone to rest takes longer than a small request.
        """
        self.files, self.spare = tuple(files), spare
        self._words = memoryview(mmap.mmap(files[0], _SEATS * _LINE * 8)).cast("Q")
        self._looks = _LOOKS if spare else 0
        self._free, self._closed = deque(range(1, _SEATS)), False
        self._lock = threading.Lock()

    @staticmethod
    def create() -> tuple[int, ...]:
        """The descriptors of new seats; OSError where there are no more to be had."""
        files = [os.memfd_create("rankmesh-seats", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)]
        try:
            os.ftruncate(files[0], _SEATS * _LINE * 8)
            fcntl.fcntl(files[0], fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW)
            while len(files) < _SEATS:
                files.append(os.eventfd(0, os.EFD_CLOEXEC))
        except OSError:
            _close(files)
            raise
        return tuple(files)

    def close(self) -> None:
        """Wake all who wait, who are to look no more; the files go as soon as nobody has a seat."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
            for file in self.files[1:]:
                os.write(file, _ONE)
        self._let_go()

    def _let_go(self) -> None:
        """Close the files if nobody can be at one, and let go of the mapping; who still tells tells nobody."""
        with self._lock:
            if len(self._free) == _SEATS - 1:
                files, self.files = self.files, ()
                self._words = memoryview(bytearray(_SEATS * _LINE * 8)).cast("Q")
                _close(files)

    def __del__(self) -> None:
        _close(getattr(self, "files", ()))

    def take(self) -> int:
        """The number of a free seat, NO_SEAT where there is none; in the process that gives them, by any thread."""
        if self._closed:
            return NO_SEAT
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
            if self._closed:
                self._let_go()

    def wait(self, seat: int) -> None:
        """Wait until told, or woken for nothing. Whatever was told before has to be looked at now."""
        words, told = self._words, seat * _LINE + _TOLD
        for _ in range(self._looks):
            if words[told]:
                break
            pause()
        else:
            words[told + _ASLEEP] = 1
            futex.full_fence()
            if not words[told]:
                os.read(self.files[seat], 8)
            words[told + _ASLEEP] = 0
        words[told] = 0
        futex.full_fence()

    def tell(self, seat: int) -> None:
        """There is news for who waits there; in a process that does not close its seats."""
        told = seat * _LINE + _TOLD
        self._words[told] = 1
        futex.full_fence()
        if self._words[told + _ASLEEP]:
            os.write(self.files[seat], _ONE)

    def announce(self, seat: int) -> None:
        """As `tell`, where others may close the seats meanwhile: nobody's, once they have.

        Rings in any case: a faulty rank may have written that nobody is asleep there.
        """
        with self._lock:
            if self.files:
                self._words[seat * _LINE + _TOLD] = 1
                os.write(self.files[seat], _ONE)

    def remind(self) -> None:
        """Wake the threads that sleep at a seat: Python handles a signal of just before only afterwards."""
        with self._lock:
            for seat, file in enumerate(self.files):
                if seat and self._words[seat * _LINE + _ASLEEP]:
                    os.write(file, _ONE)


def _close(files: Iterable[int]) -> None:
    for file in files:
        os.close(file)
