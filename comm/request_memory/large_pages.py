"""Large pages: puts large tensors of an arena into pages of 2 MiB."""

from __future__ import annotations

from ..host.aligned_mapping import LARGE_PAGE, AlignedMapping


class LargePages:
    """Asks the kernel for each large page once, before it is written to.

    The kernel then makes the page in a tenth of the time that 512 page faults take.
    """

    def __init__(self) -> None:
        self._asked: set[int] = set()

    def prepare(self, mapped: AlignedMapping, offset: int, size: int) -> None:
        """Have all whole large pages of a region, which is in use from now on."""
        asked = self._asked
        pages = range(-(-offset // LARGE_PAGE), (offset + size) // LARGE_PAGE)
        if asked.issuperset(pages):
            return
        asked.update(pages)
        for page in pages:
            mapped.memory[page * LARGE_PAGE] = 0  # a page of which nothing is there stays so
        mapped.use_large_pages(offset, size)

    def forget(self, offset: int, size: int) -> None:
        """The system has got these bytes back."""
        self._asked.difference_update(
            range(offset // LARGE_PAGE, -(-(offset + size) // LARGE_PAGE))
        )
