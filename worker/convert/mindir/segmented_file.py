"""Segmented files: take the bytes of model files, plain or to be encrypted."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

Part = bytes | bytearray | memoryview


class Written(Protocol):
    """A binary file, as far as it is needed here."""

    def write(self, part: Part, /) -> object:
        """Add bytes."""


class SegmentedFile(Protocol):
    """A file whose segments are encrypted one by one, or not at all."""

    def write(self, part: Part) -> None:
        """Add plain bytes."""

    def end_segment(self) -> None:
        """End the segment here: what comes next is decrypted by itself."""


class PlainFile:
    """See SegmentedFile: a file that is not encrypted, and has no segments."""

    def __init__(self, file: Written) -> None:
        self._file = file

    def write(self, part: Part) -> None:
        """See SegmentedFile."""
        self._file.write(part)

    def end_segment(self) -> None:
        """See SegmentedFile."""


class CountedFile:
    """A file whose bytes are told as progress."""

    def __init__(self, file: Written, total: int, told: Callable[[str, int, int], None]) -> None:
        self._file = file
        self._total = total
        self._told = told
        self._written = 0

    def write(self, part: Part) -> None:
        """Add bytes, and tell how many there are."""
        self._file.write(part)
        self._written += len(part)
        self._told("writing", min(self._written, self._total), self._total)
