"""Arena: the shared-memory file of a job, with abort notes and one record for each rank."""

from __future__ import annotations

import ctypes
import fcntl
import mmap
import os
from enum import IntEnum
from typing import TYPE_CHECKING

import msgspec

from ..errors import RankmeshError
from ..host.sealed_memory import GROWING, create_sealed
from . import futex

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

PAGE = 4096
LINE = 128
"""Bytes between words of different writers: two cache lines, as the CPU fetches lines in pairs."""

RECORD_BYTES = 512 * 1024
"""Address space of one rank's record; pages that are never touched cost nothing."""

TEXT_BYTES = 1500
"""Bytes of an abort text that are kept."""

_MAGIC = int.from_bytes(b"RANKMESH", "little")
_VERSION = 1
_MAGIC_WORD, _VERSION_WORD, _WORLD_WORD, ABORT_WORD, _LAST_WORD = range(5)
"""Words of page 0; that of aborts is not zero once the job is aborted."""
_WAITING_BYTE = 128
_NOTE_BYTE = 1024
_NOTE_HEAD = 24


class Cause(IntEnum):
    """The reason why a job was aborted."""

    DIED = 1
    FAILED = 2
    LATE = 3
    MISMATCH = 4
    STOPPED = 5


_CAUSES = frozenset(Cause)


class AbortRecord(msgspec.Struct, frozen=True):
    """The rank to blame (None: no single one), the cause, and the text for the user."""

    rank: int | None
    cause: Cause
    text: str


class Arena:
    """One process's view of the file; `words` is the whole mapping, as uint64.

    The launcher creates it before it starts the ranks, which inherit the descriptor and attach.
    Page 0 and the records need nothing but the world size. Behind them lie the regions of
    collectives (`grow`).
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
        """The first byte behind all regions."""
        return len(self.words) * 8

    @classmethod
    def create(cls, world_size: int) -> Arena:
        """Make the file. It closes on exec unless `fd` is passed to the new process."""
        fd = create_sealed("arena", header_bytes(world_size), GROWING)
        arena = cls(fd, world_size, author=0)
        arena.words[_VERSION_WORD] = _VERSION
        arena.words[_WORLD_WORD] = world_size
        arena.words[_MAGIC_WORD] = _MAGIC
        return arena

    @classmethod
    def attach(cls, fd: int, rank: int | None = None) -> Arena:
        """Open an inherited arena, as `rank` or, with None, for the process of the launcher.

        Children of this process do not inherit it. Raises RankmeshError for any other file.
        """
        os.set_inheritable(fd, False)
        if os.fstat(fd).st_size < PAGE:
            raise RankmeshError(
                f"file descriptor {fd} holds {os.fstat(fd).st_size} bytes and is no arena"
            )
        magic, version, world_size, *_ = memoryview(os.pread(fd, PAGE, 0)).cast("Q")
        if (magic, version) != (_MAGIC, _VERSION):
            raise RankmeshError(
                f"file descriptor {fd} is no arena of version {_VERSION}: start all ranks with one "
                "rankmesh"
            )
        if rank is not None and not 0 <= rank < world_size:
            raise RankmeshError(f"rank {rank} does not belong to an arena of {world_size} ranks")
        return cls(fd, world_size, author=0 if rank is None else rank + 1)

    @property
    def data(self) -> NDArray[np.uint8]:
        """The whole mapping as bytes to compute on."""
        import numpy as np  # only ranks need it: the launcher starts them 40 ms sooner without

        return np.frombuffer(self._bytes, np.uint8)

    def grow(self, size: int) -> None:
        """Make the file at least `size` bytes long and map all of it.

        Every rank may ask for the same size.
        """
        if os.fstat(self.fd).st_size < size:
            os.ftruncate(self.fd, size)
        self._map(size)

    def close(self) -> None:
        """Close the file and forget the mapping; views that are in use stay valid."""
        if self.fd >= 0:
            os.close(self.fd)
        self.fd = -1
        self.words = self._bytes = memoryview(b"")

    def abort(self, rank: int | None, cause: Cause, text: str) -> AbortRecord:
        """End the collectives of all ranks with `text`, and blame `rank`; returns the first abort.

        Each process writes a note of its own and then points the abort word at it. For an instant
        two processes may disagree on the first abort, but their texts never mix.
        """
        if not self.words[ABORT_WORD]:
            kept = text.encode()[:TEXT_BYTES].decode(errors="ignore").encode()
            start = _note(self._author)
            for word, value in enumerate(
                (0 if rank is None else rank + 1, cause, len(kept)), start // 8
            ):
                self.words[word] = value
            self._bytes[start + _NOTE_HEAD : start + _NOTE_HEAD + len(kept)] = kept
            futex.order_fence()
            self.words[ABORT_WORD] = self._author + 1
            futex.full_fence()
        for peer in range(self.world_size):
            self._wake_rank(peer)
        return self.aborted() or AbortRecord(rank, cause, text)

    def aborted(self) -> AbortRecord | None:
        """The abort that ended the job's collectives, or None."""
        author = self.words[ABORT_WORD]
        if not author:
            return None
        if author > self.world_size + 1:
            return AbortRecord(None, Cause.FAILED, "a rank has overwritten the word of aborts")
        futex.order_fence()
        start = _note(author - 1)
        culprit, cause, length = self.words[start // 8 : start // 8 + 3]
        start += _NOTE_HEAD
        text = bytes(self._bytes[start : start + min(length, TEXT_BYTES)]).decode(errors="replace")
        # A rank may have overwritten the words.
        known = Cause(cause) if cause in _CAUSES else Cause.FAILED
        return AbortRecord(culprit - 1 if 0 < culprit <= self.world_size else None, known, text)

    def claim_last_word(self) -> bool:
        """Whether this process is the first to ask: it tells the user why the job ends."""
        fcntl.lockf(self.fd, fcntl.LOCK_EX)
        first = not self.words[_LAST_WORD]
        self.words[_LAST_WORD] = 1
        fcntl.lockf(self.fd, fcntl.LOCK_UN)
        return first

    def _wake_rank(self, rank: int) -> None:
        """Wake `rank` from its sleep: its record has the offset of the word it sleeps on."""
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
    """The byte at which the records end and the regions of collectives begin."""
    return PAGE + world_size * RECORD_BYTES


def record_byte(rank: int) -> int:
    """The byte at which the record of `rank` begins."""
    return PAGE + rank * RECORD_BYTES


def waiting_word(rank: int) -> int:
    """Index of the word with the byte offset of the word on which `rank` sleeps (0: awake)."""
    return (record_byte(rank) + _WAITING_BYTE) // 8


def _note(author: int) -> int:
    """The byte at which an author's abort note begins.

    The launcher's (0) lies in page 0, that of rank r (r + 1) in its record.
    """
    return _NOTE_BYTE if author == 0 else record_byte(author - 1) + _NOTE_BYTE
