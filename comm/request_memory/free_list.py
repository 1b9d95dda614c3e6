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

    def take(self, size: int, multiple: int = 1) -> int | None:
        """The offset of `size` bytes that were free, a multiple of `multiple`; None where no span
        has them.
        """
        for index, start in enumerate(self._starts):
            taken = -(-start // multiple) * multiple
            rest = start + self._sizes[start] - taken - size
            if rest >= 0:
                self._cut(index, taken, taken + size, rest)
                return taken
        return None

    def _cut(self, index: int, begin: int, end: int, rest: int) -> None:
        """Take the bytes from `begin` to `end` out of a span, which has `rest` more."""
        start = self._starts[index]
        del self._starts[index], self._sizes[start]
        for at, size in ((end, rest), (start, begin - start)):
            if size:
                self._starts.insert(index, at)
                self._sizes[at] = size

    def spans(self) -> list[tuple[int, int]]:
        """Offset and size of every free span."""
        return [(start, self._sizes[start]) for start in self._starts]


@lru_cache(_KEPT)
def whole_pages(size: int) -> int:
    """`size` in bytes, rounded up to pages; at least one."""
    return max(1, -(-size // _PAGE)) * _PAGE
