"""Client region: part of a client's shared memory, read and written by system calls alone.

Code that touched a mapping of it would end the server by SIGBUS where its client shortens it.
"""

from __future__ import annotations

import os
import threading
import weakref
from contextlib import suppress
from errno import EFAULT

from ....comm.errors import InputError
from ....comm.host.aligned_mapping import LARGE_PAGE
from ....comm.request_memory.tensor_arena import FilePlace
from .kernel_mapping import Forbidden, KernelMapping, is_whole

LARGE_COPY = 1 << 20
"""Bytes of one copy from which on a mapping of the region is worth its first page faults."""


class ClientRegion:
    """One registered region. Its descriptor stays open while requests use it."""

    def __init__(self, name: str, key: str, offset: int, size: int, descriptor: int) -> None:
        """`size` bytes from `offset` on of the memory that `key` names; takes the descriptor."""
        self.name, self.key, self.offset, self.size = name, key, offset, size
        self._descriptor = descriptor
        self._mapping: KernelMapping | None = None
        self._may_collapse = size >= LARGE_PAGE
        self._lock = threading.Lock()
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

    def write(self, offset: int, data: memoryview, source: FilePlace | None = None) -> None:
        """Write `data` to `offset` of the region; the client's memory does not become larger.

        `source` tells where a file in large pages has the data.
        """
        mapping = self._prepare(len(data))
        at = self.offset + offset
        while data:
            try:
                count = self._written(mapping, at, data, source)
            except OSError as error:
                self.require()  # the client has shortened it meanwhile
                reason = "no memory is left" if error.errno == EFAULT else error.strerror
                text = f"the region '{self.name}' cannot be written: {reason}."
                raise InputError(text) from None
            data, at = data[count:], at + count
            source = source and FilePlace(source.descriptor, source.offset + count)

    def _written(
        self, mapping: KernelMapping | None, at: int, data: memoryview, source: FilePlace | None
    ) -> int:
        if mapping and source:
            return mapping.write_from(at, len(data), *source)
        if mapping:
            with suppress(Forbidden):
                return mapping.write(at, data)
        return os.pwrite(self._descriptor, data, at)

    def _prepare(self, size: int) -> KernelMapping | None:
        """See `require`. For a large copy: the region's mapping, where there can be one. Before the
        first of them, once the client's memory is whole, use large pages.
        """
        self.require()
        if size < LARGE_COPY:
            return None
        with self._lock:
            if self._mapping is None:
                self._mapping = self._mapped()
            if self._mapping and self._may_collapse and is_whole(os.fstat(self._descriptor)):
                self._may_collapse = False
                self._mapping.use_large_pages()
            return self._mapping

    def _mapped(self) -> KernelMapping | None:
        try:
            return KernelMapping(self._descriptor, self.offset + self.size)
        except (OSError, OverflowError):  # it is larger than the addresses that are left
            return None
