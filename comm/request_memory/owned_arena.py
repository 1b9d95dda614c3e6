"""Owned arena: the memory of requests in the process that made it, and hands out its regions."""

from __future__ import annotations

import os
import threading
from collections import deque
from contextlib import suppress
from typing import NamedTuple

from ..errors import OutOfMemory
from ..host.aligned_mapping import LARGE_PAGE, AlignedMapping
from ..host.resources import memory_limit
from ..host.sealed_memory import GROWING, create_sealed
from ..system_limits import limit_reached
from .free_list import FreeList, whole_pages
from .large_pages import LargePages
from .page_holds import free_pages
from .tensor_arena import ArenaRegion, TensorArena

_SIZES = 64  # of which memory is kept as it came back
_FIRST = 1 << 22


class ArenaUse(NamedTuple):
    """Bytes of an arena: `used` by regions, `size` of its file, and the `limit` of that."""

    used: int
    size: int
    limit: int


class Region(ArenaRegion):
    """A region of this process's own arena; its bytes are free again once no reference to this
    object is left.
    """

    __slots__ = ("_owner",)

    def __init__(self, owner: OwnedArena, mapped: AlignedMapping, offset: int, size: int) -> None:
        self._owner, self._mapped, self.offset, self.size = owner, mapped, offset, size

    def __del__(self) -> None:
        owner = self._owner
        alike = owner._returned.get(self.size)  # any thread, at any time: no lock may be taken here
        if alike is not None:
            alike.append(self.offset)
        else:
            owner._odd.append((self.offset, self.size))


class OwnedArena(TensorArena):
    """The arena of the process that made it. Safe for any number of threads."""

    def __init__(self, limit: int, largest: int) -> None:
        """`limit` is how many bytes arrays that callers hold may take before results are copied
        (see `crowded`); the tensors of running requests come on top. `largest` is how many bytes
        the file may have.
        """
        self._size = _FIRST
        super().__init__(create_sealed("tensors", _FIRST, GROWING))
        self.limit, self._largest, self._used = limit, largest, 0
        self.allocations = 0
        """How many there have been."""

        self._free = FreeList()
        self._free.add(0, _FIRST)
        self._large = LargePages()
        self._returned: dict[int, deque[int]] = {}  # by size, for the first that are asked for
        self._odd: deque[tuple[int, int]] = deque()  # of other sizes
        self._lock = threading.Lock()

    def _length(self) -> int:
        return self._size  # ranks may make the file longer

    @property
    def used(self) -> int:
        """Bytes of regions that are in use."""
        with self._lock:
            self._collect()
            return self._used

    @property
    def use(self) -> ArenaUse:
        """How much of the arena is in use."""
        return ArenaUse(self.used, self._size, self._largest)

    @property
    def crowded(self) -> bool:
        """Whether so much is held that results had better be copied than leased."""
        return self._used > self.limit and self.used > self.limit

    def allocate(self, size: int) -> Region:
        """A region of `size` bytes, on whole pages; never waits. OutOfMemory where the file would
        grow too large.

        Memory that came back in this size is used first, the last of it before the others.
        """
        wanted = whole_pages(size)
        self.allocations += 1
        try:
            offset = self._returned[wanted].pop()
        except (KeyError, IndexError):
            offset = self._found(wanted)
        mapped, end = self._mapped, offset + wanted
        if end > len(mapped.memory):  # seldom: the call is spared
            mapped = self.reaching(end)
        return Region(self, mapped, offset, wanted)

    def trim(self) -> None:
        """Give the memory of all that is free back to the system; nothing, once closed.

        Pages that a rank has registered with its device stay.
        """
        with self._lock:
            self._collect()
            for offset, size in self._free.spans() if self.fd >= 0 else ():
                free_pages(self.fd, offset, size)
                self._large.forget(offset, size)

    def close(self) -> None:
        """Let go of the file and the mapping; arrays of it stay valid."""
        with self._lock:
            super().close()
            self._mapped = AlignedMapping.empty()  # the arrays that others hold have the old one

    def __del__(self) -> None:
        if getattr(self, "fd", -1) >= 0:  # not closed: a later step of its maker failed
            os.close(self.fd)

    def _found(self, wanted: int) -> int:
        """The offset of so many bytes of memory that is free, or came back in other sizes."""
        with self._lock:
            if len(self._returned) < _SIZES:
                self._returned.setdefault(wanted, deque())
            self._collect()
            offset = self._taken(wanted)
            if offset is None:
                self._grow(wanted)
                offset = self._taken(wanted)
                assert offset is not None
            self._used += wanted
        self._large.prepare(self._mapped, offset, wanted)
        return offset

    def _taken(self, wanted: int) -> int | None:
        """The offset of free memory, where possible of whole large pages."""
        aligned = self._free.take(wanted, LARGE_PAGE) if wanted >= LARGE_PAGE else None
        return self._free.take(wanted) if aligned is None else aligned

    def _collect(self) -> None:
        """Merge the memory that came back into the free list."""
        for size, offsets in self._returned.items():
            with suppress(IndexError):  # `allocate` may take the last one meanwhile
                while True:
                    self._give_back(offsets.popleft(), size)
        while self._odd:
            self._give_back(*self._odd.popleft())

    def _give_back(self, offset: int, size: int) -> None:
        self._free.add(offset, size)
        self._used -= size

    def _grow(self, wanted: int) -> None:
        size = max(2 * self._size, self._size + -(-wanted // LARGE_PAGE) * LARGE_PAGE)
        if size > self._largest:
            size = self._size + wanted
        if size > self._largest:
            note = memory_limit().note
            raise OutOfMemory(
                f"tensors of {wanted} bytes do not fit: {self._used} bytes are in use, and the "
                f"memory that requests share may have {self._largest}{note and f' ({note})'}. "
                f"Send less at once, or let go of results."
            )
        if os.fstat(self.fd).st_size < size:
            try:
                os.ftruncate(self.fd, size)
            except OSError as error:
                raise OutOfMemory(limit_reached(error) or f"no shared memory: {error}.") from error
        self._free.add(self._size, size - self._size)
        self._size = size
