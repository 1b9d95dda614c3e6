"""Memory that an orchestrator and its ranks share: the inputs and outputs of requests, in place."""

from __future__ import annotations

import os
import threading
from collections import deque
from contextlib import suppress
from typing import Any, NamedTuple

import numpy as np

from ..arrays import Array
from ..errors import Closed, OutOfMemory
from ..host.aligned_mapping import LARGE_PAGE, AlignedMapping, address_of
from ..host.resources import memory_limit
from ..host.sealed_memory import GROWING, create_sealed
from .free_list import FreeList, whole_pages
from .large_pages import LargePages
from .page_holds import PageRegistrar, free_pages, hold_pages

_ALIGN = 64
_SIZES = 64  # of which memory is kept as it came back
_BYTE = np.dtype(np.uint8)
_FIRST = 1 << 22


class ArenaUse(NamedTuple):
    """Bytes of an arena: `used` by regions, `size` of its file, and the `limit` of that."""

    used: int
    size: int
    limit: int


class TensorArena:
    """One process's view of a nameless file of tensors: the process that made it hands out regions.

    `limit` is how many bytes arrays that callers hold may take before results are copied (see
    `crowded`); the tensors of running requests come on top.
    """

    def __init__(self, fd: int, limit: int = 0) -> None:
        """Map the file behind `fd`, which the arena owns from now on."""
        self.fd, self.limit = fd, limit
        self._registrar: PageRegistrar | None = None
        self._mapped = AlignedMapping(fd, self._length())

    def register(self, registrar: PageRegistrar) -> None:
        """Register all pages with a device, from now on; no process takes them from the file."""
        self._registrar = registrar
        hold_pages(self.fd, len(self._mapped.memory))
        registrar.register(self._mapped.address, len(self._mapped.memory))

    def _length(self) -> int:
        return os.fstat(self.fd).st_size

    def close(self) -> None:
        """Let go of the file; arrays of it stay valid."""
        if self.fd >= 0:
            os.close(self.fd)
        self.fd = -1

    @property
    def mapping(self) -> object:
        """Another one each time that the file has been mapped anew."""
        return self._mapped

    def view(
        self, offset: int, dtype: np.dtype[np.generic], shape: tuple[int, ...], size: int
    ) -> Array:
        """The `size` bytes at `offset` as an array of `dtype` and `shape`."""
        return np.ndarray(shape, dtype, self._reaching(offset + size).memory, offset)

    def _reaching(self, end: int) -> AlignedMapping:
        """The mapping, which has all bytes before `end`."""
        if end > len(self._mapped.memory):
            if self.fd < 0:
                raise Closed("the memory that requests share is gone: the orchestrator is closed.")
            before = self._mapped
            self._mapped = AlignedMapping(self.fd, self._length())
            if self._registrar:
                self._registrar.unregister(before.address)
                self.register(self._registrar)
        return self._mapped

    def offset_of(self, array: Array) -> int | None:
        """Where in the arena a contiguous array lies; None where it does not."""
        mapped = self._mapped
        offset = int(array.__array_interface__["data"][0]) - mapped.address
        inside = 0 <= offset and offset + array.nbytes <= len(mapped.memory)
        return offset if inside and array.flags.c_contiguous else None


class ArenaRegion:
    """Some bytes of an arena."""

    __slots__ = ("__weakref__", "_arena", "offset", "size")

    def __init__(self, arena: TensorArena, offset: int, size: int) -> None:
        self._arena, self.offset, self.size = arena, offset, size

    def contains(self, start: int, end: int) -> bool:
        """Whether these bytes of the arena, possibly none, lie in the region.

        It is checked here, as numpy would take an offset below zero for one from the end.
        """
        return self.offset <= start and end <= self.offset + self.size

    def view(self, offset: int, dtype: np.dtype[Any], shape: tuple[int, ...]) -> Array:
        """The tensor at `offset` of the region, for code that keeps the region itself."""
        memory = self._arena._reaching(self.offset + self.size).memory
        return np.ndarray(shape, dtype, memory, self.offset + offset)

    def write(self, offset: int, data: bytes | memoryview) -> None:
        """Write bytes at `offset` of the region, which has room for them."""
        start = self.offset + offset
        end = start + len(data)
        self._arena._reaching(end).memory[start:end] = data

    def read(self, offset: int, size: int) -> bytes:
        """A copy of bytes at `offset` of the region."""
        start = self.offset + offset
        return bytes(self._arena._reaching(start + size).memory[start : start + size])

    def contents(self) -> memoryview:
        """All bytes of the region, which stays as long as they do."""
        return self.array(0, _BYTE, (self.size,)).data

    def array(self, offset: int, dtype: np.dtype[Any], shape: tuple[int, ...]) -> Array:
        """The tensor at `offset` of the region; it, and every view of it, keeps the region."""
        mapped = self._arena._reaching(self.offset + self.size)
        lease = LeasedBytes((self.size,), _BYTE, mapped.memory, self.offset)
        lease.region, lease.mapped = self, mapped
        return np.ndarray(shape, dtype, lease, offset)


class Region(ArenaRegion):
    """A region of this process's own arena; its bytes are free again once no reference to this
    object is left.
    """

    __slots__ = ("_owner",)

    def __init__(self, owner: OwnedArena, offset: int, size: int) -> None:
        self._owner = self._arena = owner
        self.offset, self.size = offset, size

    def __del__(self) -> None:
        owner = self._owner
        alike = owner._returned.get(self.size)  # any thread, at any time: no lock may be taken here
        if alike is not None:
            alike.append(self.offset)
        else:
            owner._odd.append((self.offset, self.size))


class LeasedBytes(np.ndarray[Any, Any]):
    """The bytes of a region, which stays as long as this does: the arrays that are made of it refer
    to it.
    """

    __slots__ = ("mapped", "region")
    region: ArenaRegion
    mapped: AlignedMapping
    """Where they are mapped, which has a descriptor of the file."""


class OwnedArena(TensorArena):
    """The arena of the process that made it. Safe for any number of threads."""

    def __init__(self, limit: int, largest: int) -> None:
        """`limit`: see the class above; `largest` is how many bytes the file may have."""
        fd = create_sealed("tensors", _FIRST, GROWING)
        self._size = _FIRST
        super().__init__(fd, limit)
        self._largest, self._used = largest, 0
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
        return Region(self, offset, wanted)

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
        self._large.prepare(self._reaching(offset + wanted), offset, wanted)
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
            os.ftruncate(self.fd, size)
        self._free.add(self._size, size - self._size)
        self._size = size


class FilePlace(NamedTuple):
    """Where a file of shared memory has some bytes; the descriptor is open as long as they are."""

    descriptor: int
    offset: int


def file_place(data: memoryview) -> FilePlace | None:
    """Where an arena's file has the bytes of an array that keeps its region; None for others."""
    base: object = data.obj
    while isinstance(base, np.ndarray) and not isinstance(base, LeasedBytes):
        base = base.base
    if not isinstance(base, LeasedBytes):
        return None
    return FilePlace(base.mapped.descriptor, address_of(data) - base.mapped.address)


def aligned(size: int) -> int:
    """`size` in bytes, rounded up so that what follows is aligned for any dtype and vector unit."""
    return -(-size // _ALIGN) * _ALIGN
