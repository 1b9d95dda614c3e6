"""Memory of the orders of one incarnation: their ring, and the bell that tells of answers."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress

from ...comm.serving.caller_slots import CallerSlots
from ...comm.serving.ring import Ring


class OrderMemory:
    """The descriptors `bell` and `ring_fd` go to the ranks, which ring when they have answered."""

    def __init__(
        self,
        size: int,
        depth: int,
        slots: CallerSlots,
        ring: Callable[[int, int, CallerSlots], Ring] = Ring,
    ) -> None:
        """Lay out memory for `size` ranks and `depth` orders; OSError where there is none."""
        self._descriptors: list[int] = []
        try:
            self.bell = self._own(os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC))
            self.ring_fd = self._own(Ring.create(size, depth))
            self.ring = ring(self.ring_fd, self.bell, slots)
        except OSError:
            self.close()
            raise

    def silence_bell(self) -> None:
        """Have the bell be readable only once it rings again."""
        with suppress(BlockingIOError):  # a rank may have read it
            os.eventfd_read(self.bell)

    def close(self) -> None:
        """Free the memory."""
        for descriptor in self._descriptors:
            os.close(descriptor)

    def _own(self, descriptor: int) -> int:
        self._descriptors.append(descriptor)
        return descriptor
