"""Exit flags: words in shared memory that the kernel marks when a process of a rank begins to end.

The pidfd of a process tells its end too, but milliseconds later where much memory has to be given
back first. Before that, the kernel releases the robust mutexes of the threads that end
(get_robust_list(2)). A rank's main thread holds one, in its record of the arena, while it lives.
"""

from __future__ import annotations

import ctypes
import mmap
import threading
from collections.abc import Callable, Sequence

from . import futex
from .arena import PAGE, Arena, record_byte

_BYTE = 512  # in the record; Progress has what is before
_WAITERS, _OWNER_DIED = 0x80000000, 0x40000000
_SHARED = _ROBUST = 1
_ATTRIBUTES = 64  # bytes, more than any C library's pthread_mutexattr_t has
_held: list[mmap.mmap] = []


def hold_exit_flag(arena: Arena, rank: int) -> None:
    """Have the kernel mark the exit flag of `rank` when the calling thread ends for any reason."""
    memory = mmap.mmap(arena.fd, PAGE, offset=record_byte(rank))  # the arena's own mapping may move
    _held.append(memory)
    address = ctypes.addressof(ctypes.c_char.from_buffer(memory, _BYTE))
    libc, attributes = ctypes.CDLL(None), ctypes.create_string_buffer(_ATTRIBUTES)
    libc.pthread_mutexattr_init(attributes)
    libc.pthread_mutexattr_setpshared(attributes, _SHARED)
    libc.pthread_mutexattr_setrobust(attributes, _ROBUST)
    libc.pthread_mutex_init(ctypes.c_void_p(address), attributes)
    libc.pthread_mutex_lock(ctypes.c_void_p(address))
    ctypes.c_uint32.from_address(address).value |= _WAITERS  # else the kernel wakes no thread


class ExitFlag:
    """The exit flag of one rank, for the process that waits for its end."""

    def __init__(self, arena: Arena, rank: int) -> None:
        self._words = arena.words  # keeps the mapping
        self._word = (record_byte(rank) + _BYTE) // 8
        self.address = arena.address + record_byte(rank) + _BYTE

    @property
    def value(self) -> int:
        """The 32 bits of the word now."""
        return self._words[self._word] & 0xFFFFFFFF

    @property
    def is_set(self) -> bool:
        """Whether the process has begun to end."""
        return bool(self.value & _OWNER_DIED)


class ExitMonitor(threading.Thread):
    """Sleeps until a rank of an arena begins to end, and reports the first one.

    Only the first ranks of a job are monitored: a futex call waits for a limited number of words.
    """

    def __init__(self, arena: Arena, ranks: Sequence[int], report: Callable[[int], None]) -> None:
        """Call `report` once, in this thread, with the first of `ranks` that ends."""
        super().__init__(name="rankmesh-exit-monitor", daemon=True)
        self._flags = {rank: ExitFlag(arena, rank) for rank in ranks[: futex.MOST_AT_ONCE]}
        self._report = report
        self._running = True

    def stop(self) -> None:
        """End within two seconds, mostly at once; from any thread."""
        self._running = False
        futex.wake(next(iter(self._flags.values())).address)

    def run(self) -> None:
        """Wait until a flag is set or `stop` is called."""
        while self._running:
            flags = self._flags.values()
            values = [flag.value for flag in flags]
            for rank, flag in self._flags.items():
                if flag.is_set:
                    self._report(rank)
                    return
            if not futex.wait_any([flag.address for flag in flags], values):
                return
