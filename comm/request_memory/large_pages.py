"""Large pages: puts large tensors of an arena into pages of 2 MiB."""

from __future__ import annotations

from contextlib import suppress

from ..host.aligned_mapping import LARGE_PAGE, AlignedMapping


class LargePages:
    """Asks the kernel for each large page once, before it is written to.

    The kernel then makes the page in a tenth of the time that 512 page faults take.
    """

    def __init__(self) -> None:
        self._asked: set[int] = set()

    def prepare(self, arena: AlignedMapping, offset: int, size: int) -> None:
        """Have all whole large pages of a region of the arena's file, which is in use from now on.

        They are mapped for that alone: the arena's own mapping may be too short, and stays.
        """
        asked = self._asked
        pages = range(-(-offset // LARGE_PAGE), (offset + size) // LARGE_PAGE)
        if asked.issuperset(pages):
            return
        asked.update(pages)
        with suppress(OSError):  # the arena is closed meanwhile, or no addresses are left
            mapped = AlignedMapping(arena.descriptor, offset + size)
            for page in pages:
                mapped.memory[page * LARGE_PAGE] = 0  # without any page there is nothing to join
            mapped.use_large_pages(offset, size)

    def forget(self, offset: int, size: int) -> None:
        """The system has got these bytes back."""
        self._asked.difference_update(
            range(offset // LARGE_PAGE, -(-(offset + size) // LARGE_PAGE))
        )
