"""Memory that an orchestrator and its ranks share: the inputs and outputs of requests, in place."""

from __future__ import annotations

import os
from typing import Any, NamedTuple

import numpy as np

from ..arrays import Array
from ..errors import Closed
from ..host.aligned_mapping import AlignedMapping, address_of
from .page_holds import PageRegistrar, hold_pages

_ALIGN = 64
_BYTE = np.dtype(np.uint8)


class TensorArena:
    """One process's view of a nameless file of tensors. The process that made it, which has the
    OwnedArena, hands out regions.
    """

    def __init__(self, fd: int) -> None:
        """Map the file behind `fd`, which the arena owns from now on."""
        self.fd = fd
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
        return np.ndarray(shape, dtype, self.reaching(offset + size).memory, offset)

    def reaching(self, end: int) -> AlignedMapping:
        """The mapping, which has all bytes before `end`."""
        if end > len(self._mapped.memory):
            if self.fd < 0:
                raise Closed("the memory that requests share is gone: the orchestrator is closed.")
            before = self._mapped
            self._mapped = AlignedMapping(before.descriptor, self._length())
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

    __slots__ = ("__weakref__", "_mapped", "offset", "size")

    def __init__(self, arena: TensorArena, offset: int, size: int) -> None:
        """Raises Closed once the arena is closed."""
        self.offset, self.size = offset, size
        self._mapped = arena.reaching(offset + size)

    def contains(self, start: int, end: int) -> bool:
        """Whether these bytes of the arena, possibly none, lie in the region.

        It is checked here, as numpy would take an offset below zero for one from the end.
        """
        return self.offset <= start and end <= self.offset + self.size

    def view(self, offset: int, dtype: np.dtype[Any], shape: tuple[int, ...]) -> Array:
        """The tensor at `offset` of the region, for code that keeps the region itself."""
        return np.ndarray(shape, dtype, self._mapped.memory, self.offset + offset)

    def write(self, offset: int, data: bytes | memoryview) -> None:
        """Write bytes at `offset` of the region, which has room for them."""
        start = self.offset + offset
        self._mapped.memory[start : start + len(data)] = data

    def read(self, offset: int, size: int) -> bytes:
        """A copy of bytes at `offset` of the region."""
        start = self.offset + offset
        return bytes(self._mapped.memory[start : start + size])

    def contents(self) -> memoryview:
        """All bytes of the region, which stays as long as they do."""
        return self.array(0, _BYTE, (self.size,)).data

    def array(self, offset: int, dtype: np.dtype[Any], shape: tuple[int, ...]) -> Array:
        """The tensor at `offset` of the region; it, and every view of it, keeps the region."""
        lease = LeasedBytes((self.size,), _BYTE, self._mapped.memory, self.offset)
        lease.region, lease.mapped = self, self._mapped
        return np.ndarray(shape, dtype, lease, offset)


class LeasedBytes(np.ndarray[Any, Any]):
    """The bytes of a region, which stays as long as this does: the arrays that are made of it refer
    to it.
    """

    __slots__ = ("mapped", "region")
    region: ArenaRegion
    mapped: AlignedMapping
    """Where they are mapped, which has a descriptor of the file."""


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
