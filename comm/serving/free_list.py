"""Free list: the free spans of a stretch of memory."""

from __future__ import annotations

from bisect import bisect_left, insort
from functools import lru_cache

_PAGE = 4096
_KEPT = 256


class FreeList:
    """Free spans of pages by their offset; neighbours are joined, the lowest that fits is taken."""

    def __init__(self) -> None:
        self._starts: list[int] = []
        self._sizes: dict[int, int] = {}

    def add(self, offset: int, size: int) -> None:
        """Give back, or add, `size` bytes at `offset`."""
        index = bisect_left(self._starts, offset)
        if index < len(self._starts) and offset + size == self._starts[index]:
            size += self._sizes.pop(self._starts.pop(index))
        if index and (before := self._starts[index - 1]) + self._sizes[before] == offset:
            self._sizes[before] += size
            return
        insort(self._starts, offset)
        self._sizes[offset] = size

    def take(self, size: int) -> int | None:
        """The offset of `size` bytes that were free, None where no span is as large."""
        for index, start in enumerate(self._starts):
            room = self._sizes[start]
            if room >= size:
                del self._starts[index], self._sizes[start]
                if room > size:
                    self._starts.insert(index, start + size)
                    self._sizes[start + size] = room - size
                return start
        return None

    def spans(self) -> list[tuple[int, int]]:
        """Offset and size of every free span."""
        return [(start, self._sizes[start]) for start in self._starts]


@lru_cache(_KEPT)
def whole_pages(size: int) -> int:
    """`size` in bytes, rounded up to pages; at least one."""
    return max(1, -(-size // _PAGE)) * _PAGE
