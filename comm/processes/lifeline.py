"""A word in a rank's record that the kernel marks when the rank's process begins to end.

The pidfd of a process tells its end, some milliseconds later where much memory has to be given back first. What the
kernel does before that is to release the robust mutexes of the threads that end (get_robust_list(2)); a rank's main
thread holds one, in its record of the arena, for as long as it lives.
"""

from __future__ import annotations

import ctypes
import mmap

from ..arena import PAGE, Arena, record_byte

_BYTE = 512  # in the record; Progress has what is before
_WAITERS, _OWNER_DIED = 0x80000000, 0x40000000
_SHARED = _ROBUST = 1
_ATTRIBUTES = 64  # bytes, more than any C library's pthread_mutexattr_t has
_held: list[mmap.mmap] = []


def hold(arena: Arena, rank: int) -> None:
    """Have the kernel mark the word of `rank` when the calling thread ends, however that comes about."""
    memory = mmap.mmap(arena.fd, PAGE, offset=record_byte(rank))  # the arena's own mapping may move
    _held.append(memory)
    address = ctypes.addressof(ctypes.c_char.from_buffer(memory, _BYTE))
    libc, attributes = ctypes.CDLL(None), ctypes.create_string_buffer(_ATTRIBUTES)
    libc.pthread_mutexattr_init(attributes)
    libc.pthread_mutexattr_setpshared(attributes, _SHARED)
    libc.pthread_mutexattr_setrobust(attributes, _ROBUST)
    libc.pthread_mutex_init(ctypes.c_void_p(address), attributes)
    libc.pthread_mutex_lock(ctypes.c_void_p(address))
    ctypes.c_uint32.from_address(address).value |= _WAITERS  # or nobody would be woken


class Lifeline:
    """The word of one rank, for whoever waits for its end."""

    def __init__(self, arena: Arena, rank: int) -> None:
        self._words = arena.words  # keeps the mapping
        self._word = (record_byte(rank) + _BYTE) // 8
        self.address = arena.address + record_byte(rank) + _BYTE

    @property
    def value(self) -> int:
        """What the word is now, of 32 bits."""
        return self._words[self._word] & 0xFFFFFFFF

    @property
    def cut(self) -> bool:
        """Whether the process has begun to end."""
        return bool(self.value & _OWNER_DIED)
