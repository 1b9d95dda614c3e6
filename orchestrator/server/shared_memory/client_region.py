"""Client region: part of a client's shared memory, read and written through its descriptor.

No mapping of it is touched: where its client shortens it, that would end the server by SIGBUS.
"""

from __future__ import annotations

import os
import weakref

from ....comm.errors import InputError
from .large_pages import LARGE_PAGE, is_whole, use_large_pages


class ClientRegion:
    """One registered region. Its descriptor stays open while requests use it."""

    def __init__(self, name: str, key: str, offset: int, size: int, descriptor: int) -> None:
        """`size` bytes from `offset` on of the memory that `key` names; takes the descriptor."""
        self.name, self.key, self.offset, self.size = name, key, offset, size
        self._descriptor = descriptor
        self._may_collapse = True
        weakref.finalize(self, os.close, descriptor)

    def require(self) -> None:
        """InputError where the client's memory has not all bytes of the region."""
        if self.offset + self.size > os.fstat(self._descriptor).st_size:
            raise InputError(
                f"the shared memory of the region '{self.name}' ends before the region does: "
                "register no more than the bytes it has."
            )

    def read(self, offset: int, memory: memoryview) -> None:
        """Fill `memory` from `offset` of the region on."""
        self._prepare(len(memory))
        at = self.offset + offset
        while memory:
            count = os.preadv(self._descriptor, [memory], at)
            if not count:  # the client has shortened it meanwhile
                self.require()
                raise InputError(f"the region '{self.name}' changes its size while it is read.")
            memory, at = memory[count:], at + count

    def write(self, offset: int, data: memoryview) -> None:
        """Write `data` to `offset` of the region; the client's memory does not become larger."""
        self._prepare(len(data))
        at = self.offset + offset
        while data:
            try:
                count = os.pwrite(self._descriptor, data, at)
            except OSError as error:
                raise InputError(
                    f"the region '{self.name}' cannot be written: {error.strerror}."
                ) from None
            data, at = data[count:], at + count

    def _prepare(self, size: int) -> None:
        """See `require`; before the first large copy, once the client's memory is whole, use large
        pages.
        """
        self.require()
        if size >= LARGE_PAGE and self._may_collapse and is_whole(os.fstat(self._descriptor)):
            self._may_collapse = False
            use_large_pages(self._descriptor, self.offset + self.size)
