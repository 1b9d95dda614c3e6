"""Shared rates: the requests that callers have left, counted by all processes of a server."""

from __future__ import annotations

import fcntl
import mmap
import struct
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from hashlib import blake2b

from ....comm.host.sealed_memory import FIXED, create_sealed
from .rates import RequestRate, taken

_ROW = struct.Struct("<16sdd")  # the caller, its requests left, and when that was
_ROWS_OF_BUCKET = 8
_BUCKETS = 2048
_BUCKET = _ROW.size * _ROWS_OF_BUCKET


class SharedRates:
    """Rows in shared memory. See CallerRates.

    A caller's digest tells its bucket of rows. The kernel locks a bucket while a process has it,
    and releases the lock where that process dies. A caller without a row takes the one that was
    used least lately.
    """

    def __init__(self, fd: int, clock: Callable[[], float] = time.monotonic) -> None:
        """`fd` is of `create`; it becomes this object's. `clock` is the same for all processes."""
        self._fd = fd
        self._rows = mmap.mmap(fd, _BUCKET * _BUCKETS)
        self._clock = clock

    @staticmethod
    def create() -> int:
        """The descriptor of memory without any caller."""
        return create_sealed("rates", _BUCKET * _BUCKETS, FIXED)

    def take(self, caller: str, allowed: RequestRate) -> float:
        """Take one request; the seconds to wait where none is left, else 0."""
        digest = blake2b(caller.encode("utf-8", "surrogateescape"), digest_size=16).digest()
        start = int.from_bytes(digest[:4], "little") % _BUCKETS * _BUCKET
        with self._locked(start):
            now = self._clock()
            at, left, then = self._found(start, digest, allowed, now)
            left, seconds = taken(left, then, now, allowed)
            _ROW.pack_into(self._rows, at, digest, left, now)
            return seconds

    def _found(
        self, start: int, digest: bytes, allowed: RequestRate, now: float
    ) -> tuple[int, float, float]:
        """The place of a caller's row, and what it tells."""
        oldest, least = start, float("inf")
        for at in range(start, start + _BUCKET, _ROW.size):
            name, left, then = _ROW.unpack_from(self._rows, at)
            if name == digest:
                return at, left, then
            if then < least:
                oldest, least = at, then
        return oldest, allowed.burst, now

    @contextmanager
    def _locked(self, start: int) -> Iterator[None]:
        fcntl.lockf(self._fd, fcntl.LOCK_EX, _BUCKET, start)
        try:
            yield
        finally:
            fcntl.lockf(self._fd, fcntl.LOCK_UN, _BUCKET, start)
