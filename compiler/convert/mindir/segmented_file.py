"""Segmented files: take the bytes of model files, plain or to be encrypted."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import BinaryIO, Protocol

Part = bytes | bytearray | memoryview
_CHUNK = 16 << 20


@dataclass(frozen=True, slots=True)
class FileRange:
    """Some bytes of a file."""

    path: str
    offset: int
    nbytes: int


class Written(Protocol):
    """A binary file, as far as it is needed here."""

    def write(self, part: Part, /) -> object:
        """Add bytes."""

    def copy(self, source: FileRange) -> bool:
        """Add bytes of another file, if the kernel can do that; else False."""


class SegmentedFile(Protocol):
    """A file whose segments are encrypted one by one, or not at all."""

    def write(self, part: Part) -> None:
        """Add plain bytes."""

    def copy(self, source: FileRange) -> bool:
        """Add bytes of another file, if they can be added without being read; else False."""

    def end_segment(self) -> None:
        """End the segment here: what comes next is decrypted by itself."""


class PlainFile:
    """See SegmentedFile: a file that is not encrypted, and has no segments."""

    def __init__(self, file: Written) -> None:
        self._file = file

    def copy(self, source: FileRange) -> bool:
        """See SegmentedFile."""
        return self._file.copy(source)

    def write(self, part: Part) -> None:
        """See SegmentedFile."""
        self._file.write(part)

    def end_segment(self) -> None:
        """See SegmentedFile."""


class CountedFile:
    """A new file whose bytes are told as progress."""

    def __init__(self, file: BinaryIO, total: int, told: Callable[[str, int, int], None]) -> None:
        self._file = file
        self._total = total
        self._told = told
        self._written = 0

    def write(self, part: Part) -> None:
        """Add bytes, and tell how many there are."""
        self._file.write(part)
        self._count(len(part))

    def copy(self, source: FileRange) -> bool:
        """See Written: the kernel copies pages of the page cache, or shares blocks of the disk."""
        self._file.flush()
        done = 0
        with open(source.path, "rb") as file:
            while done < source.nbytes:
                count = min(_CHUNK, source.nbytes - done)
                try:
                    copied = os.copy_file_range(
                        file.fileno(), self._file.fileno(), count, source.offset + done
                    )
                except OSError:
                    if done:
                        raise
                    return False
                if not copied:
                    raise OSError(errno.EIO, "is shorter than its model says", source.path)
                done += copied
                self._count(copied)
        return True

    def _count(self, nbytes: int) -> None:
        self._written += nbytes
        self._told("writing", min(self._written, self._total), self._total)
