"""Connection counts: tell the processes of a server which of them has fewer connections."""

from __future__ import annotations

import mmap

from ....comm.host.sealed_memory import FIXED, create_sealed

MOST_PROCESSES = 256
_SIZE = 8 * MOST_PROCESSES
_ABSENT = -1


class ConnectionCounts:
    """A number for each process, by its place among them."""

    def __init__(self, fd: int) -> None:
        """`fd` is of `create`; the memory stays mapped when it is closed."""
        self._counts = memoryview(mmap.mmap(fd, _SIZE)).cast("q")

    @staticmethod
    def create() -> int:
        """The descriptor of memory for processes that are all absent."""
        fd = create_sealed("connections", _SIZE, FIXED)
        counts = ConnectionCounts(fd)
        for place in range(MOST_PROCESSES):
            counts.leave(place)
        return fd

    def leave(self, place: int) -> None:
        """The process at this place takes no connections."""
        self._counts[place] = _ABSENT

    def ahead(self, place: int, count: int) -> bool:
        """Note the count of a process; whether another one has fewer connections."""
        self._counts[place] = count
        return any(_ABSENT < other < count for other in self._counts)
