"""The nameless shared-memory file of a job: abort notes, one record per rank, and what the ranks add."""

from __future__ import annotations

import ctypes
import fcntl
import mmap
import os
from enum import IntEnum
from typing import TYPE_CHECKING

import msgspec

from . import futex
from .errors import RankmeshError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

PAGE = 4096
RECORD_BYTES = 512 * 1024
"""Address space of one rank's record; pages that nobody touches cost nothing."""

TEXT_BYTES = 1500
"""How much of an abort text is kept."""

_MAGIC = int.from_bytes(b"RANKMESH", "little")
_VERSION = 1
_MAGIC_WORD, _VERSION_WORD, _WORLD_WORD, _ABORT_WORD, _LAST_WORD = range(5)
_WAITING_BYTE = 128
_NOTE_BYTE = 1024
_NOTE_HEAD = 24


class Cause(IntEnum):
    """Why a job was aborted."""

    DIED = 1
    FAILED = 2
    LATE = 3
    MISMATCH = 4
    STOPPED = 5


_CAUSES = frozenset(Cause)


class AbortRecord(msgspec.Struct, frozen=True):
    """Who is to blame (None: nobody in particular), why, and the text for the user."""

    rank: int | None
    cause: Cause
    text: str


class Arena:
    """One process's view of the file; `words` is the whole mapping, as uint64.

    The launcher creates it before it starts the ranks, which inherit the descriptor and attach. Page 0
    and the records need nothing but the world size; behind them lies what the ranks lay out (`grow`).
    """

    words: memoryview
    address: int

    def __init__(self, fd: int, world_size: int, author: int) -> None:
        self.fd = fd
        self.world_size = world_size
        self._author = author
        self._map(header_bytes(world_size))

    @property
    def end(self) -> int:
        """The first byte that nobody has laid out yet."""
        return len(self.words) * 8

    @classmethod
    def create(cls, world_size: int) -> Arena:
        """Make the file; pass `fd` on to every rank (it closes on exec unless passed explicitly)."""
        fd = os.memfd_create("rankmesh-arena", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        os.ftruncate(fd, header_bytes(world_size))
        fcntl.fcntl(fd, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK)
        arena = cls(fd, world_size, author=0)
        arena.words[_VERSION_WORD] = _VERSION
        arena.words[_WORLD_WORD] = world_size
        arena.words[_MAGIC_WORD] = _MAGIC
        return arena

    @classmethod
    def attach(cls, fd: int, rank: int | None = None) -> Arena:
        """Open an inherited arena, as `rank` or (None) as an onlooker of the launcher's process.

        Children of this process do not inherit it.
        """
        os.set_inheritable(fd, False)
        if os.fstat(fd).st_size < PAGE:
            raise RankmeshError(f"file descriptor {fd} holds {os.fstat(fd).st_size} bytes and is no arena")
        magic, version, world_size, *_ = memoryview(os.pread(fd, PAGE, 0)).cast("Q")
        if (magic, version) != (_MAGIC, _VERSION):
            raise RankmeshError(
                f"file descriptor {fd} is no arena of version {_VERSION}: start all ranks with one rankmesh")
        if rank is not None and not 0 <= rank < world_size:
            raise RankmeshError(f"rank {rank} does not belong to an arena of {world_size} ranks")
        return cls(fd, world_size, author=0 if rank is None else rank + 1)

    @property
    def data(self) -> NDArray[np.uint8]:
        """The whole mapping as bytes to compute on."""
        import numpy as np  # only ranks need it: the launcher starts them 40 ms sooner without

        return np.frombuffer(self._bytes, np.uint8)

    def grow(self, size: int) -> None:
        """Make the file at least `size` bytes long and map all of it; every rank may ask for the same."""
        if os.fstat(self.fd).st_size < size:
            os.ftruncate(self.fd, size)
        self._map(size)

    def close(self) -> None:
        """Let go of the file and the mapping; views that others still hold stay valid."""
        if self.fd >= 0:
            os.close(self.fd)
        self.fd = -1
        self.words = self._bytes = memoryview(b"")

    def abort(self, rank: int | None, cause: Cause, text: str) -> None:
        """End everybody's collectives with `text`, naming the culprit `rank`; the first abort wins.

        Each process writes a note of its own and then points the abort word at it: two that abort at
        the same moment may disagree for an instant on who was first, but never mix their texts.
        """
        if not self.words[_ABORT_WORD]:
            kept = text.encode()[:TEXT_BYTES].decode(errors="ignore").encode()
            start = _note(self._author)
            for word, value in enumerate((0 if rank is None else rank + 1, cause, len(kept)), start // 8):
                self.words[word] = value
            self._bytes[start + _NOTE_HEAD: start + _NOTE_HEAD + len(kept)] = kept
            futex.order_fence()
            self.words[_ABORT_WORD] = self._author + 1
            futex.full_fence()
        for peer in range(self.world_size):
            self._wake_rank(peer)

    def aborted(self) -> AbortRecord | None:
        """What ended the job's collectives, or None while nothing did."""
        author = self.words[_ABORT_WORD]
        if not author:
            return None
        if author > self.world_size + 1:
            return AbortRecord(None, Cause.FAILED, "a rank has written what cannot be where aborts are noted")
        futex.order_fence()
        start = _note(author - 1)
        culprit, cause, length = self.words[start // 8: start // 8 + 3]
        start += _NOTE_HEAD
        text = bytes(self._bytes[start: start + min(length, TEXT_BYTES)]).decode(errors="replace")
        known = cause if cause in _CAUSES else Cause.FAILED  # a rank may have written anything there
        return AbortRecord(culprit - 1 if 0 < culprit <= self.world_size else None, Cause(known), text)

    def claim_last_word(self) -> bool:
        """Whether this process is the first to ask: the one that tells the user why the job ends."""
        fcntl.lockf(self.fd, fcntl.LOCK_EX)
        first = not self.words[_LAST_WORD]
        self.words[_LAST_WORD] = 1
        fcntl.lockf(self.fd, fcntl.LOCK_UN)
        return first

    def _wake_rank(self, rank: int) -> None:
        """Wake `rank` wherever it sleeps: it notes the offset of the word it waits for."""
        offset = self.words[waiting_word(rank)]
        size = os.fstat(self.fd).st_size
        if 0 < offset < size:
            if offset >= len(self._bytes):
                self._map(size)
            futex.wake(self.address + offset)

    def _map(self, size: int) -> None:
        mapping = mmap.mmap(self.fd, size)
        self._bytes = memoryview(mapping)
        self.words = self._bytes.cast("Q")
        self.address = ctypes.addressof(ctypes.c_char.from_buffer(mapping))


def header_bytes(world_size: int) -> int:
    """Where the records end and the ranks' own layout begins."""
    return PAGE + world_size * RECORD_BYTES


def record_byte(rank: int) -> int:
    """Where the record of `rank` begins."""
    return PAGE + rank * RECORD_BYTES


def waiting_word(rank: int) -> int:
    """Index of the word in which `rank` notes the byte offset of the word it sleeps on (0: awake)."""
    return (record_byte(rank) + _WAITING_BYTE) // 8


ABORT_WORD = _ABORT_WORD
"""Index of the word that is not zero once the job is aborted."""


def _note(author: int) -> int:
    """Where an author's abort note begins: the launcher's (0) in page 0, rank r's (r + 1) in its record."""
    return _NOTE_BYTE if author == 0 else record_byte(author - 1) + _NOTE_BYTE
